"""Codes of tensors: by hand, and the exact inverse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.regions import SUM_BITS, Packing


def _packing(bits: int, scale: float, zero: int = 0, *, signed: bool = True) -> Packing:
    return Packing(bits, None, np.array(scale, np.float32), np.array(zero, np.int32), signed)


@pytest.mark.parametrize(
    ("bits", "codes"),
    [
        (2, [-1, -1, 0, 0, 1, 1]),
        (3, [-3, -2, 0, 0, 2, 3]),
        (4, [-7, -2, 0, 0, 2, 7]),
        (6, [-20, -2, 0, 0, 2, 31]),
        (8, [-20, -2, 0, 0, 2, 100]),
    ],
)
def test_codes_around_zero(bits: int, codes: list[int]) -> None:
    """Halves go to the even code, and what is beyond the last code gets it."""
    values = np.array([-10, -0.75, -0.25, 0.25, 0.75, 50], np.float32)
    packing = _packing(bits, 0.5)
    assert packing.codes(values).tolist() == codes
    assert packing.codes(values).dtype == packing.dtype == "int8"
    assert packing.round(values).tolist() == [code / 2 for code in codes]


@pytest.mark.parametrize(
    ("bits", "codes"), [(2, [0, 1, 3, 3]), (3, [0, 1, 5, 7]), (8, [0, 1, 5, 201])]
)
def test_codes_from_zero(bits: int, codes: list[int]) -> None:
    """With a zero point 1 the first code is the value one step below 0."""
    values = np.array([-3, 0, 2, 100], np.float32)
    packing = _packing(bits, 0.5, 1, signed=False)
    assert packing.codes(values).tolist() == codes
    assert packing.dtype == "uint8"
    assert packing.round(values).tolist() == [(code - 1) / 2 for code in codes]


def test_each_channel_has_its_scale() -> None:
    """Scale and zero follow the axis; a part along it keeps its own."""
    packing = Packing(4, 1, np.array([1, 0.5], np.float32), np.array([0, 2], np.int32), False)
    values = np.array([[3, 3], [4, -1]], np.float32)
    assert packing.codes(values).tolist() == [[3, 8], [4, 0]]
    assert packing.cut(1, 2).codes(values[:, 1:]).tolist() == [[8], [0]]


@given(
    st.sampled_from([2, 3, 4, 6, 8, SUM_BITS]),
    st.floats(2**-20, 2**10, width=32),
    st.booleans(),
    st.data(),
)
def test_values_of_codes_have_these_codes(
    bits: int, scale: float, signed: bool, data: st.DataObject
) -> None:
    """Packing is the exact inverse of unpacking, for every code that there is."""
    signed |= bits == SUM_BITS
    zero = 0 if signed else data.draw(st.integers(0, 2**bits - 1))
    packing = _packing(bits, scale, zero, signed=signed)
    low, high = packing.limits
    # A bias has more digits than single precision keeps: half of its bits come back.
    low, high = (max(low, -(2**23)), min(high, 2**23)) if bits > 8 else (low, high)
    codes = np.linspace(low, high, 300).astype(packing.dtype)
    values = packing.values(codes)
    assert np.array_equal(packing.codes(values), codes)
    assert np.array_equal(packing.round(values), values)
