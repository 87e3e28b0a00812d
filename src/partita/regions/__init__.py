"""Boxes of tensors, the formats in which they travel, and the codes that values can be."""

from partita.regions.bit_packing import CODE_BITS, pack_codes, packed_bytes, unpack_codes
from partita.regions.packing import SUM_BITS, Clipping, LayerBits, Packing
from partita.regions.region import Interval, Region, find_tiling_fault, hull_of, subtract_all
from partita.regions.wire import (
    CODE_FORMATS,
    EXACT_FORMATS,
    WIRE_FORMATS,
    Array,
    Grid,
    decode_array,
    describe_wire,
    encode_array,
    wire_bytes,
)

__all__ = [
    "CODE_BITS",
    "CODE_FORMATS",
    "EXACT_FORMATS",
    "SUM_BITS",
    "WIRE_FORMATS",
    "Array",
    "Clipping",
    "Grid",
    "Interval",
    "LayerBits",
    "Packing",
    "Region",
    "decode_array",
    "describe_wire",
    "encode_array",
    "find_tiling_fault",
    "hull_of",
    "pack_codes",
    "packed_bytes",
    "subtract_all",
    "unpack_codes",
    "wire_bytes",
]
