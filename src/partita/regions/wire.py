"""How a piece of a tensor travels: payloads of arrays, in the formats of :mod:`.formats`.

Packed payloads have a checksum in front, since any bytes mean something; then, where the piece's
own range counts, its scale and offset in single precision.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from partita.regions.bit_packing import Codes, pack_codes, unpack_codes
from partita.regions.formats import (
    CODE_FORMATS,
    PACKED_BITS,
    Format,
    fits,
    most_bytes,
    read_format,
)
from partita.regions.pictures import draw_picture, read_picture

#: What holds the elements of a tensor, or of a piece of one.
Array = npt.NDArray[Any]
Payload = bytes | memoryview

#: Checksum, scale and offset.
_RANGE = struct.Struct("<Iff")
_CHECKSUM = struct.Struct("<I")
#: Values at a time, so that what is made on the way stays in the caches. The best of 2**12 to 2**18
#: for ``uint4`` on x86-64.
_BLOCK = 2**15
#: Of zlib, the fastest. The usual one makes features of 2 to 8 bits of a detector 2 to 8 % shorter
#: and takes three times as long, which a thin link does not give back to a slow edge.
_LEVEL = 1


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


def describe_wire(wire: str) -> dict[str, Any]:
    """What a program of somebody else's must know to read and write payloads in a format.

    ``head`` lists what comes first, with its types, ``bits`` those of one code in what follows.
    """
    form = read_format(wire)
    if form.method == "zlib":
        words = "zlib's format, of the payload as it would be without, or that, if not shorter"
        return {**describe_wire(form.base), "compression": words}
    if form.method == "jpeg":
        words = (
            "a JPEG file in the place of the codes, or these, if it is not shorter; three channels"
            " at a time, groups under each other, each filled up to a multiple of 8 rows"
        )
        return {**describe_wire(form.base), "compression": words}
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
        "bits": PACKED_BITS[wire],
        "codes": "code i takes the bits from i * bits on, from the least significant of each byte",
        "values": values,
    }


def encode_array(array: npt.NDArray[np.generic], wire: str, grid: Grid | None = None) -> Payload:
    """The payload that carries ``array`` in format ``wire``.

    A contiguous array in format ``raw`` is not copied: the payload is a view of it. What does not
    become shorter by being compressed travels as it is.

    Args:
        grid: For formats of codes: on which all values of ``array`` lie.
    """
    form = read_format(wire)
    if form.method == "zlib":
        plain = _encode_fixed(array, form.base, grid)
        packed = zlib.compress(plain, _LEVEL)
        return packed if len(packed) < len(plain) else plain
    if form.method == "jpeg":
        return _encode_picture(array, form)
    return _encode_fixed(array, wire, grid)


def _encode_fixed(array: npt.NDArray[np.generic], wire: str, grid: Grid | None) -> Payload:
    if wire == "raw":
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    if wire == "float16":
        return np.ascontiguousarray(array, np.float16).tobytes()
    values = np.ascontiguousarray(array, np.float32).reshape(-1)
    if grid is not None:
        # The zero is added to whole numbers: the sum of one and a half step might round.
        packed = pack_codes(_find_codes(values, -0.0, grid.scale, grid.zero), grid.bits)
        return _CHECKSUM.pack(zlib.crc32(packed.data)) + packed.tobytes()
    bits = PACKED_BITS[wire]
    codes, scale, low = _find_range(values, bits)
    return _seal(pack_codes(codes, bits).tobytes(), scale, low)


def _encode_picture(array: npt.NDArray[np.generic], form: Format) -> Payload:
    values = np.ascontiguousarray(array, np.float32).reshape(-1)
    codes, scale, low = _find_range(values, PACKED_BITS[form.base])
    file = draw_picture(codes, array.shape, form.quality)
    return _seal(file if 0 < len(file) < codes.size else codes.tobytes(), scale, low)


def _seal(body: bytes, scale: float, low: float) -> bytes:
    """A payload with its range and the checksum of all."""
    prefix = _RANGE.pack(0, scale, low)[_CHECKSUM.size :]
    return _CHECKSUM.pack(zlib.crc32(body, zlib.crc32(prefix))) + prefix + body


def _find_range(values: npt.NDArray[np.float32], bits: int) -> tuple[Codes, float, float]:
    """The codes of values over their own range, the scale of these, and the least value."""
    low = float(values.min()) if values.size else 0.0
    high = float(values.max()) if values.size else 0.0
    scale = (high - low) / (2**bits - 1) or 1.0
    return _find_codes(values, low, scale, 0), scale, low


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
    form, most = read_format(wire), most_bytes(shape, dtype, wire)
    if not fits(len(payload), shape, dtype, wire):
        at_most = "at most " if form.method else ""
        raise ValueError(f"payload has {len(payload)} bytes, {at_most}{most} needed")
    try:
        if form.method == "zlib" and len(payload) < most:
            payload = _inflate(payload, most)
        if form.base == "raw":
            return np.frombuffer(payload, dtype).reshape(shape)
        if form.base == "float16":
            return np.frombuffer(payload, np.float16).astype(dtype).reshape(shape)
        values = _decode_packed(payload, shape, form, grid)
    except _Damaged as error:
        raise ValueError(
            f"payload of {len(payload)} bytes in format {wire} was damaged on the way{error}"
        ) from None
    if np.dtype(dtype).kind in "iu":
        values = np.rint(values)
    return values.astype(dtype, copy=False).reshape(shape)


class _Damaged(Exception):
    """A payload does not hold what was sent; says what more is known."""


def _inflate(payload: bytes | bytearray | memoryview, size: int) -> bytes:
    """What was compressed to ``payload``: exactly ``size`` bytes, whose checksum is right."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(payload, size + 1)
    except zlib.error:
        raise _Damaged from None
    if len(plain) != size or not stream.eof or stream.unused_data:
        raise _Damaged
    return plain


def _decode_packed(
    payload: bytes | bytearray | memoryview, shape: Sequence[int], form: Format, grid: Grid | None
) -> npt.NDArray[np.float32]:
    """The values in a payload with a checksum, flat."""
    prefix = _CHECKSUM if form.has_codes else _RANGE
    if len(payload) < prefix.size:
        raise _Damaged
    said = _CHECKSUM.unpack_from(payload)[0]
    if zlib.crc32(memoryview(payload)[_CHECKSUM.size :]) != said:
        raise _Damaged
    body, count = memoryview(payload)[prefix.size :], prod(shape)
    if form.method == "jpeg" and len(body) < count:
        try:
            codes = read_picture(body, shape)
        except ValueError as error:
            raise _Damaged(f": {error}") from None
    else:
        codes = unpack_codes(np.frombuffer(body, np.uint8), PACKED_BITS[form.base], count)
    values = codes.astype(np.float32)
    if grid is not None:
        values -= np.float32(grid.zero)
        values *= np.float32(grid.scale)
        return values
    _, scale, low = _RANGE.unpack_from(payload)
    values *= np.float32(scale)
    values += np.float32(low)
    return values
