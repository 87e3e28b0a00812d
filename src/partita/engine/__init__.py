"""What computes fragments on a device.

Names are loaded when they are used: what answers first needs none of the engines.
"""

from typing import TYPE_CHECKING

from partita.lazy import on_first_use

if TYPE_CHECKING:
    from partita.engine.base import Array, Blob, Engine, Runner, make_inputs
    from partita.engine.null import NullEngine, NullRunner
    from partita.engine.ort import OrtEngine, OrtOptions, OrtRunner, check_graph
    from partita.engine.reference import Reference
    from partita.engine.slowed import Slowdown, SlowedEngine, SlowedRunner, calibrate

_HOMES = {
    "Array": "base",
    "Blob": "base",
    "Engine": "base",
    "NullEngine": "null",
    "NullRunner": "null",
    "OrtEngine": "ort",
    "OrtOptions": "ort",
    "OrtRunner": "ort",
    "Reference": "reference",
    "Runner": "base",
    "Slowdown": "slowed",
    "SlowedEngine": "slowed",
    "SlowedRunner": "slowed",
    "calibrate": "slowed",
    "check_graph": "ort",
    "make_inputs": "base",
}

__all__ = [
    "Array",
    "Blob",
    "Engine",
    "NullEngine",
    "NullRunner",
    "OrtEngine",
    "OrtOptions",
    "OrtRunner",
    "Reference",
    "Runner",
    "Slowdown",
    "SlowedEngine",
    "SlowedRunner",
    "calibrate",
    "check_graph",
    "make_inputs",
]

__getattr__ = on_first_use(__name__, _HOMES)
