"""Boxes of tensors, the formats in which they travel, and the codes that values can be."""

from partita.regions.bit_packing import CODE_BITS, pack_codes, packed_bytes, unpack_codes
from partita.regions.formats import (
    CODE_FORMATS,
    COMPRESSED,
    PICTURE_AXES,
    WIRE_FORMATS,
    coded_bytes,
    fits,
    is_plan_format,
    list_formats,
    most_bytes,
    read_format,
    suits,
    wire_bytes,
    with_share,
)
from partita.regions.packing import SUM_BITS, Clipping, LayerBits, Packing
from partita.regions.region import Interval, Region, find_tiling_fault, hull_of, subtract_all
from partita.regions.wire import Array, Grid, decode_array, describe_wire, encode_array

__all__ = [
    "CODE_BITS",
    "CODE_FORMATS",
    "COMPRESSED",
    "PICTURE_AXES",
    "SUM_BITS",
    "WIRE_FORMATS",
    "Array",
    "Clipping",
    "Grid",
    "Interval",
    "LayerBits",
    "Packing",
    "Region",
    "coded_bytes",
    "decode_array",
    "describe_wire",
    "encode_array",
    "find_tiling_fault",
    "fits",
    "hull_of",
    "is_plan_format",
    "list_formats",
    "most_bytes",
    "pack_codes",
    "packed_bytes",
    "read_format",
    "subtract_all",
    "suits",
    "unpack_codes",
    "wire_bytes",
    "with_share",
]
