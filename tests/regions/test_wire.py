"""Wire formats: what arrives, how far off it may be, and how long it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

from partita.regions import COMPRESSED, WIRE_FORMATS, Grid, decode_array, encode_array, wire_bytes

LAW = settings(max_examples=100)
SHAPES = hn.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
FLOATS = hn.arrays(
    np.float32, SHAPES, elements=st.floats(-1000, 1000, width=32, allow_subnormal=False)
)
PACKED = ("uint8", "uint6", "uint4", "uint3", "uint2", "uint1")


def travel(array: np.ndarray[Any, Any], wire: str) -> np.ndarray[Any, Any]:
    """Return the array after its way over a link."""
    payload = bytes(encode_array(array, wire))
    assert len(payload) == wire_bytes(array.shape, array.dtype.name, wire)
    return decode_array(payload, array.shape, array.dtype.name, wire)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool"]
)
def test_raw_is_exact(dtype: str) -> None:
    """Raw pieces of every type arrive bit for bit, strided ones too."""
    values = np.random.default_rng(0).integers(0, 200, (3, 5, 7)).astype(dtype)
    for piece in (values, values[1:, ::2], values[:, 1:1], values.transpose(2, 0, 1)):
        got = travel(piece, "raw")
        assert got.dtype == piece.dtype
        np.testing.assert_array_equal(got, piece)


def test_raw_keeps_special_numbers() -> None:
    """Infinities, NaNs and negative zeros arrive as they are."""
    special = np.array([np.inf, -np.inf, np.nan, -0.0], np.float32)
    assert travel(special, "raw").tobytes() == special.tobytes()


@LAW
@given(FLOATS)
def test_half_precision_rounds_once(array: np.ndarray[Any, Any]) -> None:
    """float16 gives the nearest half-precision number."""
    np.testing.assert_array_equal(
        travel(array, "float16"), array.astype(np.float16).astype(np.float32)
    )


@pytest.mark.parametrize("wire", PACKED)
@LAW
@given(array=FLOATS)
def test_packed_error_is_half_a_step(wire: str, array: np.ndarray[Any, Any]) -> None:
    """A packed piece is off by at most half a step of its own range, for odd counts too."""
    got = travel(array, wire)
    assert got.shape == array.shape
    if array.size:
        spread = float(array.max()) - float(array.min())
        step = spread / (2 ** int(wire.removeprefix("uint")) - 1)
        slack = 1e-6 * float(np.abs(array).max()) + 1e-12
        assert float(np.abs(got.astype(np.float64) - array).max()) <= step / 2 + slack


@pytest.mark.parametrize("wire", PACKED)
def test_bytes_of_a_photo_survive_eight_bits(wire: str) -> None:
    """Whole numbers from 0 to 2^bits - 1 arrive exactly in that many bits."""
    top = 2 ** int(wire.removeprefix("uint")) - 1
    values = np.arange(top + 1, dtype=np.float32)
    np.testing.assert_array_equal(travel(values, wire), values)


@pytest.mark.parametrize("wire", PACKED)
def test_whole_numbers_are_rounded_not_cut(wire: str) -> None:
    """Packed whole numbers are off by half a step at most, as others are."""
    array = np.arange(10, 201, 3).astype(np.uint8)
    step = (array.max() - array.min()) / (2 ** int(wire.removeprefix("uint")) - 1)
    gap = np.abs(travel(array, wire).astype(float) - array)
    assert gap.max() <= step / 2 + 0.5
    assert travel(array, "uint8").tolist() == array.tolist()


@pytest.mark.parametrize("wire", PACKED)
@pytest.mark.parametrize("value", [0.0, 3.5, -1e30, 1e-30])
def test_a_constant_piece_stays_constant(wire: str, value: float) -> None:
    """A piece of one value arrives as that value, however small or large."""
    array = np.full((3, 3), value, np.float32)
    np.testing.assert_allclose(travel(array, wire), array, rtol=1e-6)


@pytest.mark.parametrize("wire", [wire for wire in WIRE_FORMATS if wire not in COMPRESSED])
@pytest.mark.parametrize("change", [-1, 1, -4])
def test_a_lying_length_is_refused(wire: str, change: int) -> None:
    """A payload that is longer or shorter than its shape says is refused, never read past."""
    payload = bytes(encode_array(np.ones((3, 3), np.float32), wire))
    lying = payload[:change] if change < 0 else payload + b"\0"
    with pytest.raises(ValueError, match=r"payload has \d+ bytes, \d+ needed"):
        decode_array(lying, (3, 3), "float32", wire)


@pytest.mark.parametrize(
    ("wire", "count", "size"),
    [("raw", 5, 20), ("float16", 5, 10), ("uint8", 5, 17), ("uint6", 5, 16), ("uint4", 5, 15),
     ("uint3", 5, 14), ("uint2", 5, 14), ("uint2", 4, 13), ("uint1", 9, 14), ("uint4", 0, 12),
     ("codes8", 5, 9), ("codes3", 5, 6), ("codes1", 9, 6)],
)  # fmt: skip
def test_sizes_by_hand(wire: str, count: int, size: int) -> None:
    """Payload sizes are those counted by hand: packed bits, 4 bytes of checksum, 8 of range."""
    assert wire_bytes((count,), "float32", wire) == size


@pytest.mark.parametrize("wire", PACKED)
def test_a_damaged_payload_is_refused(wire: str) -> None:
    """Any one flipped bit of a packed payload is noticed, in its prefix and in its codes."""
    payload = bytes(encode_array(np.linspace(-1, 1, 9, dtype=np.float32), wire))
    for place in range(len(payload) * 8):
        damaged = bytearray(payload)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(ValueError, match=f"format {wire} was damaged on the way"):
            decode_array(damaged, (9,), "float32", wire)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """A grid of any width, whose zero may lie outside of its codes."""
    bits = draw(st.sampled_from((8, 6, 4, 3, 2, 1)))
    scale = draw(st.floats(2.0**-20, 2.0**14, width=32))
    return Grid(bits, scale, draw(st.integers(-(2**bits), 2 ** (bits + 1))))


@LAW
@given(grid=grids(), shape=hn.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5),
       seed=st.integers(0, 99))  # fmt: skip
def test_codes_are_an_exact_inverse(grid: Grid, shape: tuple[int, ...], seed: int) -> None:
    """What lies on a grid arrives bit for bit, strided pieces too, in as few bits as it has."""
    codes = np.random.default_rng(seed).integers(0, 2**grid.bits, (*shape, 2))
    values = ((codes - grid.zero).astype(np.float32) * np.float32(grid.scale))[..., 0]
    payload = encode_array(values, grid.wire, grid)
    assert len(payload) == 4 + -(-values.size * grid.bits // 8)
    got = decode_array(payload, values.shape, "float32", grid.wire, grid)
    np.testing.assert_array_equal(got, values)


def test_all_codes_of_a_grid_travel() -> None:
    """The least and the largest code are not cut, whatever the block they come in."""
    grid = Grid(8, 0.1, 128)
    codes = np.tile(np.arange(256), 300)
    values = (codes - 128).astype(np.float32) * np.float32(0.1)
    payload = encode_array(values, "codes8", grid)
    np.testing.assert_array_equal(np.frombuffer(payload, np.uint8, offset=4), codes)
    got = decode_array(payload, values.shape, "float32", "codes8", grid)
    np.testing.assert_array_equal(got, values)
