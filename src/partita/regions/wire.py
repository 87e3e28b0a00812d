"""Wire formats: how a piece of a tensor travels.

``raw`` keeps the tensor's own bytes and is exact. ``float16`` casts; ``uint8`` and the packed
``uint6``, ``uint4``, ``uint3``, ``uint2`` and ``uint1`` quantise affinely over the piece's own
range, with one float32 scale and one float32 offset in front: all of these are lossy and named in
the plan. ``codes8`` and the packed ``codes6`` to ``codes1`` carry a quantised tensor as its codes,
whose scale and zero both ends know: what arrives is what was sent, bit for bit.

Packed payloads have a checksum in front, since any bytes mean something.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from partita.regions.bit_packing import CODE_BITS, Codes, pack_codes, packed_bytes, unpack_codes

#: What holds the elements of a tensor, or of a piece of one.
Array = npt.NDArray[Any]
Payload = bytes | memoryview

#: Formats that a plan may name for any tensor.
WIRE_FORMATS = ("raw", "float16", *(f"uint{bits}" for bits in CODE_BITS))
#: Formats of quantised tensors; which one follows from the tensor.
CODE_FORMATS = tuple(f"codes{bits}" for bits in CODE_BITS)
#: Formats that change no value.
EXACT_FORMATS = frozenset(("raw", *CODE_FORMATS))

_BITS = {wire: bits for formats in (WIRE_FORMATS[2:], CODE_FORMATS) for wire, bits in
         zip(formats, CODE_BITS, strict=True)}  # fmt: skip
#: Checksum, scale and offset.
_RANGE = struct.Struct("<Iff")
_CHECKSUM = struct.Struct("<I")
#: Values at a time, so that what is made on the way stays in the caches. The best of 2**12 to 2**18
#: for ``uint4`` on x86-64.
_BLOCK = 2**15


class Grid(msgspec.Struct, frozen=True):
    """Where the values of a quantised tensor lie: at ``(code - zero) * scale``, in float32.

    Attributes:
        bits: Of a code: codes are whole numbers from 0 to ``2**bits - 1``.
        zero: The code of the value 0; it may lie outside of the codes.
    """

    bits: int
    scale: float
    zero: int

    @property
    def wire(self) -> str:
        """The format in which tensors on this grid travel."""
        return f"codes{self.bits}"


@lru_cache(maxsize=64)
def _item_bytes(dtype: str) -> int:
    return np.dtype(dtype).itemsize


def wire_bytes(shape: Sequence[int], dtype: str, wire: str) -> int:
    """The payload size in bytes of a piece.

    Args:
        shape: Extents of the piece, in elements.
        dtype: NumPy name of the tensor's type.
        wire: One of :data:`WIRE_FORMATS` or :data:`CODE_FORMATS`.
    """
    count = prod(shape)
    if wire == "raw":
        return count * _item_bytes(dtype)
    if wire == "float16":
        return count * 2
    return _prefix(wire).size + packed_bytes(count, _BITS[wire])


def describe_wire(wire: str) -> dict[str, Any]:
    """What a program of somebody else's must know to read and write payloads in a format.

    ``head`` lists what comes first, with its types, ``bits`` those of one code in what follows.
    """
    if wire in ("raw", "float16"):
        kind = "the tensor's own type" if wire == "raw" else "float16"
        return {"head": [], "values": f"{kind}, little-endian, row by row"}
    if wire in CODE_FORMATS:
        head, values = [], "(code - zero) * scale, with the stream's own scale and zero"
    else:
        head, values = [["scale", "<f4"], ["offset", "<f4"]], "code * scale + offset"
    return {
        "head": [["checksum", "<u4"], *head],
        "checksum": "CRC-32 of all that follows it",
        "bits": _BITS[wire],
        "codes": "code i takes the bits from i * bits on, from the least significant of each byte",
        "values": values,
    }


def _prefix(wire: str) -> struct.Struct:
    return _CHECKSUM if wire in CODE_FORMATS else _RANGE


def encode_array(array: npt.NDArray[np.generic], wire: str, grid: Grid | None = None) -> Payload:
    """The payload that carries ``array`` in format ``wire``.

    A contiguous array in format ``raw`` is not copied: the payload is a view of it.

    Args:
        grid: For one of :data:`CODE_FORMATS`: on which all values of ``array`` lie.
    """
    if wire == "raw":
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    if wire == "float16":
        return np.ascontiguousarray(array, np.float16).tobytes()
    values = np.ascontiguousarray(array, np.float32).reshape(-1)
    if grid is not None:
        # The zero is added to whole numbers: the sum of one and a half step might round.
        packed = pack_codes(_find_codes(values, -0.0, grid.scale, grid.zero), grid.bits)
        return _CHECKSUM.pack(zlib.crc32(packed.data)) + packed.tobytes()
    bits = _BITS[wire]
    low = float(values.min()) if values.size else 0.0
    high = float(values.max()) if values.size else 0.0
    scale = (high - low) / (2**bits - 1) or 1.0
    packed = pack_codes(_find_codes(values, low, scale, 0), bits)
    prefix = _RANGE.pack(0, scale, low)[_CHECKSUM.size :]
    return _CHECKSUM.pack(zlib.crc32(packed.data, zlib.crc32(prefix))) + prefix + packed.tobytes()


def _find_codes(values: npt.NDArray[np.float32], low: float, scale: float, zero: int) -> Codes:
    """The numbers of steps of ``scale`` from ``low`` to each of ``values``, plus ``zero``."""
    codes = np.empty(values.size, np.uint8)
    steps = np.empty(min(_BLOCK, values.size), np.float32)
    for start in range(0, values.size, _BLOCK):
        part = values[start : start + _BLOCK]
        step = np.subtract(part, low, out=steps[: part.size])
        step /= scale
        np.rint(step, out=step)
        if zero:
            step += zero
        np.copyto(codes[start : start + part.size], step, casting="unsafe")
    return codes


def decode_array(
    payload: bytes | bytearray | memoryview,
    shape: Sequence[int],
    dtype: str,
    wire: str,
    grid: Grid | None = None,
) -> npt.NDArray[np.generic]:
    """The array that ``payload`` carries; ``raw`` payloads are viewed, not copied.

    Args:
        grid: As it was encoded with.

    Raises:
        ValueError: The payload's length does not fit shape, type and format, or its checksum does
            not fit its bytes.
    """
    expected = wire_bytes(shape, dtype, wire)
    if len(payload) != expected:
        raise ValueError(f"payload has {len(payload)} bytes, {expected} needed")
    if wire == "raw":
        return np.frombuffer(payload, dtype).reshape(shape)
    if wire == "float16":
        return np.frombuffer(payload, np.float16).astype(dtype).reshape(shape)
    said = _CHECKSUM.unpack_from(payload)[0]
    if zlib.crc32(memoryview(payload)[_CHECKSUM.size :]) != said:
        raise ValueError(f"payload of {expected} bytes in format {wire} was damaged on the way")
    packed = np.frombuffer(payload, np.uint8, offset=_prefix(wire).size)
    codes = unpack_codes(packed, _BITS[wire], prod(shape))
    if grid is not None:
        values = (codes.astype(np.float32) - np.float32(grid.zero)) * np.float32(grid.scale)
    else:
        _, scale, low = _RANGE.unpack_from(payload)
        values = codes.astype(np.float32)
        values *= np.float32(scale)
        values += np.float32(low)
    if np.dtype(dtype).kind in "iu":
        values = np.rint(values)
    return values.astype(dtype, copy=False).reshape(shape)
