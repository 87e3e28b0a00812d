"""Wire formats: how a piece of a tensor travels.

``raw`` keeps the tensor's own bytes and is exact. The others are lossy and are named in the plan:
``float16`` casts; ``uint8`` and the packed ``uint6``/``uint4``/``uint2`` quantise affinely, with
one float32 scale and one float32 offset per piece in front of the payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

#: What holds the elements of a tensor, or of a piece of one.
Array = npt.NDArray[Any]

WIRE_FORMATS = ("raw", "float16", "uint8", "uint6", "uint4", "uint2")

_PREFIX_BYTES = 8
Payload = bytes | memoryview


@lru_cache(maxsize=64)
def _item_bytes(dtype: str) -> int:
    return np.dtype(dtype).itemsize


def _bits(wire: str) -> int:
    return int(wire.removeprefix("uint"))


def wire_bytes(shape: Sequence[int], dtype: str, wire: str) -> int:
    """The payload size in bytes of a piece.

    Args:
        shape: Extents of the piece, in elements.
        dtype: NumPy name of the tensor's type.
        wire: One of :data:`WIRE_FORMATS`.
    """
    count = prod(shape)
    if wire == "raw":
        return count * _item_bytes(dtype)
    if wire == "float16":
        return count * 2
    return _PREFIX_BYTES + -(-count * _bits(wire) // 8)


def _pack(codes: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    if bits == 8:
        return codes
    planes = np.unpackbits(codes[:, None], axis=1)[:, 8 - bits :]
    return np.packbits(planes.reshape(-1))


def _unpack(payload: npt.NDArray[np.uint8], bits: int, count: int) -> npt.NDArray[np.uint8]:
    if bits == 8:
        return payload
    flat = np.unpackbits(payload, count=count * bits).reshape(count, bits)
    wide = np.zeros((count, 8), np.uint8)
    wide[:, 8 - bits :] = flat
    return np.packbits(wide, axis=1)[:, 0]


def encode_array(array: npt.NDArray[np.generic], wire: str) -> Payload:
    """The payload that carries ``array`` in format ``wire``.

    A contiguous array in format ``raw`` is not copied: the payload is a view of it.
    """
    if wire == "raw":
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    if wire == "float16":
        return np.ascontiguousarray(array, np.float16).tobytes()
    bits = _bits(wire)
    values = np.ascontiguousarray(array, np.float32).reshape(-1)
    low = float(values.min()) if values.size else 0.0
    high = float(values.max()) if values.size else 0.0
    scale = (high - low) / (2**bits - 1) or 1.0
    codes = np.rint((values - low) / scale).astype(np.uint8)
    return np.array([scale, low], "<f4").tobytes() + _pack(codes, bits).tobytes()


def decode_array(
    payload: bytes | bytearray | memoryview, shape: Sequence[int], dtype: str, wire: str
) -> npt.NDArray[np.generic]:
    """The array that ``payload`` carries; ``raw`` payloads are viewed, not copied.

    Raises:
        ValueError: The payload's length does not fit shape, type and format.
    """
    expected = wire_bytes(shape, dtype, wire)
    if len(payload) != expected:
        raise ValueError(f"payload has {len(payload)} bytes, {expected} needed")
    if wire == "raw":
        return np.frombuffer(payload, dtype).reshape(shape)
    if wire == "float16":
        return np.frombuffer(payload, np.float16).astype(dtype).reshape(shape)
    scale, low = np.frombuffer(payload, "<f4", 2)
    count = int(np.prod(shape, dtype=np.int64))
    codes = _unpack(np.frombuffer(payload, np.uint8, offset=_PREFIX_BYTES), _bits(wire), count)
    values: npt.NDArray[np.float32] = codes.astype(np.float32) * scale + low
    if np.dtype(dtype).kind in "iu":
        values = np.rint(values)
    return values.astype(dtype).reshape(shape)
