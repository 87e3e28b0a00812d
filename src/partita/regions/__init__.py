"""Boxes of tensors, the formats in which they travel, and the codes that values can be."""

from partita.regions.packing import SUM_BITS, Clipping, LayerBits, Packing
from partita.regions.region import Interval, Region, find_tiling_fault, hull_of, subtract_all
from partita.regions.wire import WIRE_FORMATS, Array, decode_array, encode_array, wire_bytes

__all__ = [
    "SUM_BITS",
    "WIRE_FORMATS",
    "Array",
    "Clipping",
    "Interval",
    "LayerBits",
    "Packing",
    "Region",
    "decode_array",
    "encode_array",
    "find_tiling_fault",
    "hull_of",
    "subtract_all",
    "wire_bytes",
]
