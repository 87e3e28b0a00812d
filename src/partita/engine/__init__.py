"""What computes fragments on a device."""

from partita.engine.base import Array, Blob, Engine, Runner, make_inputs
from partita.engine.null import NullEngine, NullRunner
from partita.engine.ort import OrtEngine, OrtOptions, OrtRunner, check_graph
from partita.engine.reference import Reference
from partita.engine.slowed import Slowdown, SlowedEngine, SlowedRunner, calibrate

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
