"""Codes of less than a byte, packed without gaps.

Code ``i`` takes the bits from ``i * bits`` on, counted from the least significant bit of the first
byte, so that eight codes fill ``bits`` bytes. ONNX stores its integers of 4 and 2 bits the same.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]

#: Bits that a code can have; 5 and 7 would save little.
CODE_BITS = (8, 6, 4, 3, 2, 1)
#: Codes at a time: what is made on the way stays in the first caches. The best of 2**12 to 2**18
#: for 4 bits on x86-64.
_BLOCK = 2**15
#: The widest words that the bytes of eight codes are made of.
_WORD = {2: "<u2", 4: "<u4", 6: "<u2"}


def packed_bytes(count: int, bits: int) -> int:
    """The bytes that ``count`` codes of ``bits`` bits take.

    >>> packed_bytes(5, 3)
    2
    """
    return -(-count * bits // 8)


def pack_codes(codes: Codes, bits: int) -> Codes:
    """The codes packed, of shape (:func:`packed_bytes`,).

    Args:
        codes: Flat and contiguous, each below ``2**bits``; of 8 bits they are not copied.
        bits: One of ``CODE_BITS``.
    """
    if bits == 8:
        return codes
    if bits == 1:
        return np.packbits(codes, bitorder="little")
    packed = np.empty((-(-codes.size // 8), bits), np.uint8)
    for start in range(0, codes.size, _BLOCK):
        lanes = _as_lanes(codes[start : start + _BLOCK])
        for lane in (8, 16, 32):
            low, used = _lower_half(lane, bits)
            lanes = (lanes & low) | ((lanes >> (lane - used)) & (low << used))
        _copy_words(lanes.view(np.uint8).reshape(-1, 8), packed[start // 8 :], bits)
    return packed.reshape(-1)[: packed_bytes(codes.size, bits)]


def unpack_codes(packed: Codes, bits: int, count: int) -> Codes:
    """The first ``count`` codes in ``packed``, of shape (count,); of 8 bits they are not copied.

    Args:
        packed: Flat, with at least :func:`packed_bytes` bytes.
        bits: One of ``CODE_BITS``.
    """
    if bits == 8:
        return packed[:count]
    if bits == 1:
        return np.unpackbits(packed, count=count, bitorder="little")
    groups = -(-count // 8)
    if packed.size < groups * bits:
        packed = np.concatenate([packed, np.zeros(groups * bits - packed.size, np.uint8)])
    words = packed[: groups * bits].reshape(groups, bits)
    codes = np.empty(groups, "<u8")
    for start in range(0, groups, _BLOCK // 8):
        part = words[start : start + _BLOCK // 8]
        lanes = np.zeros(len(part), "<u8")
        _copy_words(part, lanes.view(np.uint8).reshape(-1, 8), bits)
        for lane in (32, 16, 8):
            low, used = _lower_half(lane, bits)
            lanes = (lanes & low) | ((lanes & (low << used)) << (lane - used))
        codes[start : start + len(lanes)] = lanes
    return codes.view(np.uint8)[:count]


def _as_lanes(codes: Codes) -> npt.NDArray[np.uint64]:
    """Eight codes a number, the first in its lowest byte; zeros after the last."""
    if codes.size % 8:
        codes = np.concatenate([codes, np.zeros(-codes.size % 8, np.uint8)])
    return codes.view("<u8")


def _lower_half(lane: int, bits: int) -> tuple[np.uint64, np.uint64]:
    """Two lanes of ``lane`` bits become one: the bits used in the lower of them, and how many."""
    used = bits * lane // 8
    repeated = sum(((1 << used) - 1) << place for place in range(0, 64, 2 * lane))
    return np.uint64(repeated), np.uint64(used)


def _copy_words(source: Codes, target: Codes, bits: int) -> None:
    """Copy the first ``bits`` bytes of each row: column by column, as rows are short."""
    word = _WORD.get(bits, "u1")
    rows, size = len(source), np.dtype(word).itemsize
    for column in range(0, bits, size):
        part = slice(column, column + size)
        target[:rows, part].view(word)[:, 0] = source[:, part].view(word)[:, 0]
