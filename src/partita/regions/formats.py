"""Names of wire formats, and how many bytes pieces of tensors take in them.

``raw`` keeps the tensor's own bytes and is exact. ``float16`` casts; ``uint8`` and the packed
``uint6``, ``uint4``, ``uint3``, ``uint2`` and ``uint1`` quantise affinely over the piece's own
range: all of these are lossy and named in the plan. ``codes8`` and the packed ``codes6`` to
``codes1`` carry a quantised tensor as its codes, whose scale and zero both ends know: what arrives
is what was sent, bit for bit.

Two formats compress what another one makes. ``zlib`` is exact: it packs what would travel anyway,
``codes4+zlib`` the codes of a quantised tensor, ``zlib`` alone the tensor's own bytes. ``jpeg80``,
``jpeg60``, ``jpeg40`` and ``jpeg20`` draw three channels at a time as a picture of that quality.
How long their payloads are depends on the data: a plan says behind an ``@`` what share of the most
that they may take is expected, as ``zlib@0.41``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from math import ceil, prod
from typing import Literal, NamedTuple

import numpy as np

from partita.regions.bit_packing import CODE_BITS, packed_bytes

#: Qualities of pictures, as AUTO-SPLIT, Table 7 has them.
_QUALITIES = (80, 60, 40, 20)
#: Formats that make payloads of a length that the data decide.
COMPRESSED = ("zlib", *(f"jpeg{quality}" for quality in _QUALITIES))
#: Formats that a plan may name for any tensor.
WIRE_FORMATS = ("raw", "float16", *(f"uint{bits}" for bits in CODE_BITS), *COMPRESSED)
#: Formats of quantised tensors; which one follows from the tensor.
CODE_FORMATS = tuple(f"codes{bits}" for bits in CODE_BITS)

#: Bits of one element in packed formats.
PACKED_BITS = {f"{kind}{bits}": bits for kind in ("uint", "codes") for bits in CODE_BITS}
_CHECKSUM_BYTES, _RANGE_BYTES = 4, 12
#: A picture has a height and a width beside its channels, and is one of several requests.
_LEAST_RANK = 4
#: Which tensors can be pictures, in words.
PICTURE_AXES = "tensors of four axes and more (requests, channels, height, width)"


class Format(NamedTuple):
    """What a format's name says.

    Attributes:
        base: The format of fixed length, in which a piece takes the most bytes.
        method: What compresses that.
        quality: Of pictures.
        share: What is expected of those bytes, from above 0 to 1.
    """

    base: str
    method: Literal["", "zlib", "jpeg"] = ""
    quality: int = 0
    share: float = 1.0

    @property
    def is_exact(self) -> bool:
        """Whether no value changes."""
        return self.base == "raw" or self.base in CODE_FORMATS

    @property
    def has_codes(self) -> bool:
        """Whether both ends must know the tensor's scale and zero."""
        return self.base in CODE_FORMATS


@lru_cache(maxsize=4096)
def read_format(wire: str) -> Format:
    """What the name of a format says.

    Raises:
        ValueError: There is no such format.

    >>> read_format("codes4+zlib@0.5")
    Format(base='codes4', method='zlib', quality=0, share=0.5)
    """
    name, at, text = wire.partition("@")
    base, plus, last = name.rpartition("+")
    share = _read_share(text) if at else 1.0
    if last == "zlib" and (base in CODE_FORMATS if plus else True):
        return Format(base or "raw", "zlib", share=share)
    if name in COMPRESSED:
        return Format("uint8", "jpeg", int(name.removeprefix("jpeg")), share)
    if at or (name not in WIRE_FORMATS and name not in CODE_FORMATS):
        raise ValueError(f"wire format {wire!r} is unknown")
    return Format(name)


def _read_share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"expected share {text!r} of a payload is no number above 0 and up to 1")
    return share


def with_share(wire: str, share: float) -> str:
    """A compressing format with the share that is expected of it."""
    return f"{wire.partition('@')[0]}@{min(1.0, max(share, 1e-6)):.4g}"


def is_plan_format(wire: str) -> bool:
    """Whether a plan may name a format: one of ``WIRE_FORMATS``, maybe with a share."""
    try:
        read_format(wire)
    except ValueError:
        return False
    return wire.partition("@")[0] in WIRE_FORMATS


def suits(wire: str, shape: Sequence[int]) -> bool:
    """Whether pieces of a shape can travel in a format: pictures have a height and a width."""
    return read_format(wire).method != "jpeg" or len(shape) >= _LEAST_RANK


def list_formats() -> tuple[str, ...]:
    """The formats of ``WIRE_FORMATS`` that are there: pictures take the library Pillow."""
    has_pictures = find_spec("PIL") is not None
    return tuple(w for w in WIRE_FORMATS if has_pictures or not w.startswith("jpeg"))


def wire_bytes(shape: Sequence[int], dtype: str, wire: str) -> int:
    """The payload size in bytes of a piece: expected, where the format compresses.

    Args:
        shape: Extents of the piece, in elements.
        dtype: NumPy name of the tensor's type.
        wire: Name of the format.
    """
    form = read_format(wire)
    most = _fixed_bytes(prod(shape), dtype, form.base)
    return most if form.share == 1.0 else ceil(most * form.share)


def coded_bytes(count: int, dtype: str, wire: str) -> int:
    """The bytes by which the time counts that coding so many elements takes.

    Those in memory; of formats that make something else of values it was measured on floats, which
    other types are turned into.

    >>> coded_bytes(3, "uint8", "zlib"), coded_bytes(3, "uint8", "jpeg80")
    (3, 12)
    """
    return count * _item_bytes(dtype if read_format(wire).base == "raw" else "float32")


def most_bytes(shape: Sequence[int], dtype: str, wire: str) -> int:
    """The most bytes that a piece's payload may have; exactly these in formats of fixed length."""
    return _fixed_bytes(prod(shape), dtype, read_format(wire).base)


def fits(size: int, shape: Sequence[int], dtype: str, wire: str) -> bool:
    """Whether a payload of ``size`` bytes may be of a piece."""
    most = most_bytes(shape, dtype, wire)
    return size <= most if read_format(wire).method else size == most


def _fixed_bytes(count: int, dtype: str, base: str) -> int:
    if base == "raw":
        return count * _item_bytes(dtype)
    if base == "float16":
        return count * 2
    prefix = _CHECKSUM_BYTES if base in CODE_FORMATS else _RANGE_BYTES
    return prefix + packed_bytes(count, PACKED_BITS[base])


@lru_cache(maxsize=64)
def _item_bytes(dtype: str) -> int:
    return np.dtype(dtype).itemsize
