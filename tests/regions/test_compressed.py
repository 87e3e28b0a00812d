"""Formats that compress: exact or named lossy, never longer than what they compress."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn
from tests.regions.test_wire import FLOATS, grids

from partita.engine import draw_feature
from partita.regions import (
    CODE_FORMATS,
    COMPRESSED,
    WIRE_FORMATS,
    Grid,
    decode_array,
    encode_array,
    is_plan_format,
    most_bytes,
    read_format,
    suits,
    wire_bytes,
    with_share,
)

LAW = settings(max_examples=60)
JPEGS = [wire for wire in COMPRESSED if wire != "zlib"]


def travel(array: np.ndarray[Any, Any], wire: str) -> np.ndarray[Any, Any]:
    """Return the array after its way over a link."""
    payload = bytes(encode_array(array, wire))
    assert len(payload) <= most_bytes(array.shape, array.dtype.name, wire)
    return decode_array(payload, array.shape, array.dtype.name, wire)


@LAW
@given(FLOATS)
def test_zlib_is_an_exact_inverse(array: np.ndarray[Any, Any]) -> None:
    """Floats arrive bit for bit, those that do not compress, too."""
    assert travel(array, "zlib").tobytes() == np.ascontiguousarray(array).tobytes()


@LAW
@given(grid=grids(), shape=hn.array_shapes(max_dims=4, max_side=7), seed=st.integers(0, 99))
def test_compressed_codes_are_an_exact_inverse(
    grid: Grid, shape: tuple[int, ...], seed: int
) -> None:
    """What lies on a grid arrives bit for bit, of any width, few values or many."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2 ** rng.integers(1, grid.bits + 1), shape)
    values = (codes - grid.zero).astype(np.float32) * np.float32(grid.scale)
    wire = f"{grid.wire}+zlib@0.5"
    payload = encode_array(values, wire, grid)
    assert (
        len(payload)
        <= most_bytes(shape, "float32", wire)
        == wire_bytes(shape, "float32", grid.wire)
    )
    got = decode_array(payload, shape, "float32", wire, grid)
    np.testing.assert_array_equal(got, values)


@pytest.mark.parametrize("shape", [(1, 3, 40, 31), (1, 16, 17, 20), (1, 30, 33, 3), (1, 1, 9, 9),
                                   (1, 2, 3, 16, 16)])  # fmt: skip
def test_pictures_are_near_and_nearer_with_quality(shape: tuple[int, ...]) -> None:
    """Every layout comes back in its own shape; quality costs bytes and saves error."""
    feature = draw_feature(shape)
    errors, sizes = [], []
    for wire in JPEGS:
        got = travel(feature, wire)
        assert (got.shape, got.dtype) == (shape, np.float32)
        errors.append(float(np.abs(got - feature).mean()) / float(feature.max()))
        sizes.append(len(encode_array(feature, wire)))
    assert errors[0] < 0.08
    assert errors == sorted(errors)
    assert sizes == sorted(sizes, reverse=True)


def test_a_photo_is_compressed_many_times() -> None:
    """A smooth picture takes a small part of its bytes, noise all of them and is then exact."""
    smooth = np.zeros((1, 3, 64, 64), np.float32) + np.linspace(0, 1, 64, dtype=np.float32)
    assert len(encode_array(smooth, "jpeg80")) < smooth.size / 8
    assert np.abs(travel(smooth, "jpeg80") - smooth).max() < 0.02
    noise = np.random.default_rng(0).integers(0, 256, (1, 3, 4, 4)).astype(np.uint8)
    noise[0, 0, 0, :2] = 0, 255
    np.testing.assert_array_equal(travel(noise, "jpeg80"), noise)


@pytest.mark.parametrize("wire", ["jpeg20", "zlib", "codes4+zlib"])
def test_a_damaged_payload_is_refused(wire: str) -> None:
    """A flipped bit is noticed, or one that says nothing; so is what is cut off or comes after."""
    grid = Grid(4, 0.1, 0) if wire.startswith("codes") else None
    feature = np.rint(draw_feature((1, 3, 24, 24)) * 10) * np.float32(0.1)
    payload = bytes(encode_array(feature, wire, grid))
    assert len(payload) < most_bytes(feature.shape, "float32", wire)
    sent = decode_array(payload, feature.shape, "float32", wire, grid)
    places, idle = range(0, len(payload) * 8, 11), 0
    for place in places:
        damaged = bytearray(payload)
        damaged[place // 8] ^= 1 << place % 8
        with contextlib.suppress(ValueError):
            got = decode_array(damaged, feature.shape, "float32", wire, grid)
            idle += 1  # such as the length of a code that is not in use
            np.testing.assert_array_equal(got, sent)
    assert idle < len(places) / 10
    for lying in (payload[:-1], payload + b"\0", payload[:5], b""):
        with pytest.raises(ValueError, match="was damaged on the way"):
            decode_array(lying, feature.shape, "float32", wire, grid)
    with pytest.raises(ValueError, match=r"payload has \d+ bytes, at most \d+ needed"):
        decode_array(bytes(10**5), feature.shape, "float32", wire, grid)


def test_expected_bytes_are_a_share_of_the_most() -> None:
    """What is counted on a link is the share; what may come is all."""
    assert wire_bytes((1, 3, 8, 8), "float32", "zlib@0.25") == 192
    assert most_bytes((1, 3, 8, 8), "float32", "zlib@0.25") == 768
    assert wire_bytes((100,), "float32", "codes4+zlib@0.5") == 27
    assert most_bytes((1, 3, 8, 8), "float32", "jpeg80@0.1") == 12 + 192
    assert with_share("zlib@0.25", 2.0) == "zlib@1"
    assert read_format(with_share("jpeg40", 0.0)).share > 0


def test_names_of_formats() -> None:
    """Plans name those of any tensor; what codes are, the tensor says."""
    assert all(is_plan_format(wire) for wire in WIRE_FORMATS)
    assert not any(is_plan_format(wire) for wire in (*CODE_FORMATS, "codes4+zlib", "uint8+zlib"))
    bad = ("jpeg90", "zlib@0", "zlib@2", "zlib@nan", "raw@0.5", "uint8+zlib", "+zlib", "zlib@", "")
    assert not any(is_plan_format(wire) for wire in bad)
    assert read_format("zlib").is_exact
    assert read_format("codes2+zlib@0.1").is_exact
    assert not read_format("jpeg80").is_exact
    assert not suits("jpeg80", (10, 10))
    assert not suits("jpeg80", (1, 10, 10))
    assert suits("jpeg80", (1, 3, 10, 10))
