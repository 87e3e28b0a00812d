"""Nearest resizing in every mode: which neighbour is nearer is the engine's own word."""

from __future__ import annotations

import numpy as np
import pytest

from partita.graph import load_graph
from tests.graph.rules.single import assert_boxes_equal, make_single

RNG = np.random.default_rng(11)
MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
#: Extents before and after of which some position is halfway between two, but for its last bit.
SIZES = ((26, 7), (7, 26), (15, 32), (30, 63), (15, 5))
SCALES = ((8, 32 / 13), (8, 2.4615), (35, 26 / 3), (38, 0.3), (2, 19 / 18), (7, 5.8))


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("mode", MODES)
def test_positions_are_the_engines(mode: str, rounding: str) -> None:
    """Boxes of rows look at the rows that the whole resize looks at."""
    attrs = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": rounding}
    for extent, after in SIZES:
        image = RNG.standard_normal((1, 1, extent, 2), np.float32)
        sizes = np.asarray([1, 1, after, 2], np.int64)
        model = make_single(
            "Resize", {"x": image}, {"s": sizes}, order=["x", "", "", "s"], opset=19, **attrs
        )
        assert_boxes_equal(model, {"x": image}, axes=[2], count=6)
    for extent, by in SCALES:
        image = RNG.standard_normal((1, 1, extent, 2), np.float32)
        scales = np.asarray([1, 1, by, 2], np.float32)
        model = make_single(
            "Resize", {"x": image}, {"s": scales}, order=["x", "", "s"], opset=19, **attrs
        )
        assert_boxes_equal(model, {"x": image}, axes=[2, 3], count=6)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_positions_of_an_old_mode(mode: str) -> None:
    """The mode that moves even axes which keep their extent divides like others, or runs whole."""
    image = RNG.standard_normal((1, 2, 6, 5), np.float32)
    consts = {"none": np.zeros(0, np.float32), "s": np.asarray([1, 1, 2, 1], np.float32)}
    model = make_single(
        "Resize",
        {"x": image},
        consts,
        opset=11,
        mode=mode,
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        nearest_mode="ceil",
    )
    assert_boxes_equal(model, {"x": image}, axes=[1, 2, 3])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_scale_that_adds_no_row(mode: str) -> None:
    """What keeps its shape is handed on, whatever its scales are."""
    image = RNG.standard_normal((1, 1, 6, 4), np.float32)
    scales = np.asarray([1, 1, 1.14, 1.2], np.float32)
    model = make_single("Resize", {"x": image}, {"s": scales}, order=["x", "", "s"], mode=mode)
    assert_boxes_equal(model, {"x": image}, axes=[2, 3])


def test_extents_are_the_engines() -> None:
    """Ten rows by 1.3 are 13 in single precision, and so is what follows from them."""
    image = RNG.standard_normal((1, 1, 10, 4), np.float32)
    scales = np.asarray([1, 1, 1.3, 1], np.float32)
    model = make_single("Resize", {"x": image}, {"s": scales}, order=["x", "", "s"])
    assert load_graph(model).tensors["y0"].shape == (1, 1, 13, 4)
