"""Packed codes: bit by bit as the slow way has them, and as ONNX stores its narrow integers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.numpy_helper import from_array

from partita.regions import CODE_BITS, pack_codes, packed_bytes, unpack_codes


def pack_slowly(codes: list[int], bits: int) -> bytes:
    """Every code's bits one after the other in one large number."""
    number = sum(code << place * bits for place, code in enumerate(codes))
    return number.to_bytes(-(-len(codes) * bits // 8), "little")


@settings(max_examples=100)
@given(data=st.data(), bits=st.sampled_from(CODE_BITS))
def test_codes_are_packed_without_gaps(data: st.DataObject, bits: int) -> None:
    """Each code takes its bits and no more, for any count; the way back gives them again."""
    codes = data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=40))
    packed = pack_codes(np.asarray(codes, np.uint8), bits)
    assert packed.tobytes() == pack_slowly(codes, bits)
    assert packed.size == packed_bytes(len(codes), bits)
    assert unpack_codes(packed, bits, len(codes)).tolist() == codes


@pytest.mark.parametrize("bits", CODE_BITS)
@pytest.mark.parametrize("extra", [0, 1, 7])
def test_more_codes_than_are_packed_at_a_time(bits: int, extra: int) -> None:
    """Blocks meet without a seam; bytes that begin at an odd place in memory are read as well."""
    codes = np.random.default_rng(bits).integers(0, 2**bits, 70_000 + extra).astype(np.uint8)
    packed = pack_codes(codes, bits)
    assert packed.tobytes() == pack_slowly(codes.tolist(), bits)
    shifted = np.frombuffer(b"?" + packed.tobytes(), np.uint8, offset=1)
    np.testing.assert_array_equal(unpack_codes(shifted, bits, codes.size), codes)


@pytest.mark.parametrize(("bits", "dtype"), [(4, ml_dtypes.uint4), (2, ml_dtypes.uint2)])
def test_the_order_is_that_of_onnx(bits: int, dtype: type) -> None:
    """Codes of 4 and 2 bits lie as ONNX's own integers do, so that blobs are its raw data."""
    codes = (np.arange(13) % 2**bits).astype(np.uint8)
    assert pack_codes(codes, bits).tobytes() == from_array(codes.astype(dtype)).raw_data
