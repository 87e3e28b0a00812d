"""Others that are seen while an endpoint still opens."""

from __future__ import annotations

from typing import Any

import pytest

from partita.fabric import ZenohEndpoint, ZenohOptions, zenoh_endpoint
from partita.fabric.zenoh_control import ControlPlane
from partita.lab.ports import free_addresses


class _Hasty(ControlPlane):
    """Tells of a peer from inside its own constructor, as Zenoh's thread may."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._on_presence("early", True)


def test_who_is_seen_while_it_opens_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody tells of it a second time."""
    monkeypatch.setattr(zenoh_endpoint, "ControlPlane", _Hasty)
    endpoint = ZenohEndpoint(ZenohOptions("nano", "barn", (free_addresses(1)[0],), ()))
    try:
        assert endpoint.peers() == {"early"}
    finally:
        endpoint.close()
