"""What computes fragments on a device.

Names are loaded when they are used: what answers first needs none of the engines.
"""

from typing import TYPE_CHECKING

from partita.lazy import on_first_use

if TYPE_CHECKING:
    from partita.engine.base import (
        Blob,
        Engine,
        Runner,
        draw_codes,
        draw_feature,
        make_feeds,
        make_inputs,
    )
    from partita.engine.endpoint import EndpointEngine
    from partita.engine.ort import OrtEngine, OrtOptions, OrtRunner
    from partita.engine.reference import Reference
    from partita.engine.slowed import Slowdown, SlowedEngine, SlowedRunner, calibrate

_MODULES = {
    "base": "Blob Engine Runner draw_codes draw_feature make_feeds make_inputs",
    "endpoint": "EndpointEngine",
    "ort": "OrtEngine OrtOptions OrtRunner",
    "reference": "Reference",
    "slowed": "Slowdown SlowedEngine SlowedRunner calibrate",
}

__all__ = [
    "Blob",
    "EndpointEngine",
    "Engine",
    "OrtEngine",
    "OrtOptions",
    "OrtRunner",
    "Reference",
    "Runner",
    "Slowdown",
    "SlowedEngine",
    "SlowedRunner",
    "calibrate",
    "draw_codes",
    "draw_feature",
    "make_feeds",
    "make_inputs",
]

__getattr__ = on_first_use(__name__, _MODULES)
