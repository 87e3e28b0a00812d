"""A session while it runs: seen in a terminal, on a page, by Prometheus and OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.lazy import on_first_use
from partita.live.remote import RemoteSession, offer_scene
from partita.live.snapshot import (
    DeviceView,
    Event,
    Expectation,
    Gain,
    LinkView,
    Scene,
    Snapshot,
)
from partita.live.state import LiveState
from partita.live.view import LiveView

if TYPE_CHECKING:  # each needs packages that the others do not
    from partita.live.routes import live_routes, serve_live, served_routes
    from partita.live.scene import Foresight, foresee, make_scene
    from partita.live.screen import draw_screen
    from partita.live.traces import emit_spans

__all__ = [
    "DeviceView",
    "Event",
    "Expectation",
    "Foresight",
    "Gain",
    "LinkView",
    "LiveState",
    "LiveView",
    "RemoteSession",
    "Scene",
    "Snapshot",
    "draw_screen",
    "emit_spans",
    "foresee",
    "live_routes",
    "make_scene",
    "offer_scene",
    "serve_live",
    "served_routes",
]

__getattr__ = on_first_use(
    __name__,
    {
        "routes": "live_routes serve_live served_routes",
        "scene": "Foresight foresee make_scene",
        "screen": "draw_screen",
        "traces": "emit_spans",
    },
)
