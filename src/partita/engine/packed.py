"""Packed weights: blobs of codes with what they stand for, unpacked when a fragment is loaded.

A fragment's graph names such a blob by its hash and the type that it wants to read, such as
``5e1f….float32``; the store, the network and bundles hold the codes, of 2 to 8 bits each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from partita.engine.base import Blob
from partita.regions import CODE_BITS, Array, pack_codes, packed_bytes, unpack_codes

Codes = npt.NDArray[np.uint8]

_MAGIC = b"codes\0"
#: What follows the mark: the length of the head.
_LENGTH_BYTES = 4
#: Types that codes can be unpacked to.
UNPACKED = ("float32", "int8", "uint8")


class PackedHead(msgspec.Struct, frozen=True, array_like=True):
    """What a packed blob says of itself.

    Attributes:
        bits: Of one code.
        low: The smallest code; what is packed is counted from it.
        shape: Of the tensor.
        axis: Along which scales and zeros change; None where there is one of each.
    """

    bits: int
    low: int
    shape: tuple[int, ...]
    axis: int | None

    @property
    def scales(self) -> int:
        """How many scales, and zeros, there are."""
        return 1 if self.axis is None else self.shape[self.axis]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(PackedHead)


def pack_blob(codes: Array, head: PackedHead, scale: Array, zero: Array) -> Codes:
    """The packed blob of codes of ``head``'s shape.

    Args:
        scale: Float32, as many as the head says.
        zero: The codes that stand for 0; int32, as many.
    """
    said = _encoder.encode(head)
    packed = pack_codes((codes.reshape(-1).astype(np.int16) - head.low).astype(np.uint8), head.bits)
    parts = (
        np.frombuffer(_MAGIC + len(said).to_bytes(_LENGTH_BYTES, "little") + said, np.uint8),
        np.ascontiguousarray(scale, "<f4").reshape(-1).view(np.uint8),
        np.ascontiguousarray(zero, "<i4").reshape(-1).view(np.uint8),
        packed,
    )
    return np.concatenate(parts)


def pack_narrow(array: Array) -> Codes | None:
    """The packed blob of whole numbers of a byte each that fewer bits tell apart; else None.

    They are unpacked as their own type.
    """
    if array.dtype.name not in UNPACKED[1:] or not array.size:
        return None
    low, high = int(array.min()), int(array.max())
    bits = next(bits for bits in reversed(CODE_BITS) if high - low < 2**bits)
    if bits == max(CODE_BITS):
        return None
    head = PackedHead(bits, low, array.shape, None)
    return pack_blob(array, head, np.ones(1, np.float32), np.zeros(1, np.int32))


def name_packed(content_hash: str, dtype: str) -> str:
    """How a graph names a packed blob whose codes it wants as ``dtype``."""
    return f"{content_hash}.{dtype}"


def split_location(location: str) -> tuple[str, str]:
    """The blob that a graph names, and the type to unpack it to; empty where it is not packed."""
    content_hash, _, dtype = location.rpartition(".")
    return (content_hash, dtype) if dtype in UNPACKED else (location, "")


def collect_blobs(locations: Iterable[str], blobs: Mapping[str, Blob]) -> dict[str, Blob]:
    """The bytes at a graph's locations, packed blobs unpacked.

    Args:
        locations: What the graph names.
        blobs: By hash.

    Raises:
        ValueError: A blob is not packed as the graph expects.
    """
    found: dict[str, Blob] = {}
    for location in sorted(locations):
        content_hash, dtype = split_location(location)
        blob = blobs[content_hash]
        found[location] = unpack_blob(blob, dtype) if dtype else blob
    return found


def unpacked_bytes(blob: Blob, dtype: str) -> int:
    """The bytes that a packed blob takes once it is unpacked.

    Raises:
        ValueError: As :func:`unpack_blob`.
    """
    head, _ = _read_head(np.frombuffer(blob, np.uint8))
    return prod(head.shape) * np.dtype(dtype).itemsize


class PackedTensor(NamedTuple):
    """What a packed blob holds.

    Attributes:
        scale: Float32, in a shape that broadcasts against the tensor's.
        zero: What stands for 0 among the packed numbers; float32, of the same shape.
        packed: Codes counted from the least, packed; flat bytes.
    """

    head: PackedHead
    scale: Array
    zero: Array
    packed: Codes


def read_packed(blob: Blob) -> PackedTensor:
    """The parts of a packed blob, not copied where they need not be.

    Raises:
        ValueError: The blob is no packed one, or its length is not what its head says.
    """
    data = np.frombuffer(blob, np.uint8)
    head, start = _read_head(data)
    middle, end = start + 4 * head.scales, start + 8 * head.scales
    if data.size != end + packed_bytes(prod(head.shape), head.bits):
        raise ValueError(f"packed blob of {data.size} bytes does not hold what its head says")
    shape = [1] * len(head.shape)
    if head.axis is not None:
        shape[head.axis] = -1
    scale = np.frombuffer(blob, "<f4", head.scales, start).reshape(shape)
    zero = np.frombuffer(blob, "<i4", head.scales, middle).reshape(shape) - head.low
    return PackedTensor(head, scale, zero.astype(np.float32), data[end:])


def unpack_blob(blob: Blob, dtype: str) -> Codes:
    """The tensor in a packed blob, as flat bytes of shape (elements times item size,).

    Args:
        dtype: ``float32`` for values, ``int8`` or ``uint8`` for codes.

    Raises:
        ValueError: As :func:`read_packed`.
    """
    head, scale, zero, packed = read_packed(blob)
    codes = unpack_codes(packed, head.bits, prod(head.shape)).reshape(head.shape)
    if dtype != "float32":
        whole = (codes.astype(np.int16) + head.low).astype(dtype)
        return whole.reshape(-1).view(np.uint8)
    values = codes.astype(np.float32)
    values -= zero
    values *= scale
    return values.reshape(-1).view(np.uint8)


def _read_head(data: Codes) -> tuple[PackedHead, int]:
    """The head, and where what follows it begins."""
    start = len(_MAGIC) + _LENGTH_BYTES
    if data[: len(_MAGIC)].tobytes() != _MAGIC:
        raise ValueError(f"blob of {data.size} bytes is not packed")
    stop = start + int.from_bytes(data[len(_MAGIC) : start].tobytes(), "little")
    try:
        head = _decoder.decode(data[start:stop].tobytes())
    except msgspec.MsgspecError as error:
        raise ValueError(f"packed blob has no readable head: {error}") from None
    return head, stop
