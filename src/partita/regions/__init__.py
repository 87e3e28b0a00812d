"""Boxes of tensors and the formats in which they travel."""

from partita.regions.region import Interval, Region, find_tiling_fault, hull_of, subtract_all
from partita.regions.wire import WIRE_FORMATS, Array, decode_array, encode_array, wire_bytes

__all__ = [
    "WIRE_FORMATS",
    "Array",
    "Interval",
    "Region",
    "decode_array",
    "encode_array",
    "find_tiling_fault",
    "hull_of",
    "subtract_all",
    "wire_bytes",
]
