"""Resizing whole axes, and resizing that does not keep axes apart."""

from __future__ import annotations

import numpy as np
import pytest

from partita.graph import load_graph
from partita.regions import Region
from tests.graph.rules.single import assert_boxes_equal, make_single, run_box, run_whole

X4 = np.random.default_rng(4).standard_normal((1, 2, 3, 10), np.float32)
SIZES = np.asarray([1, 2, 2, 7], np.int64)


@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor"])
def test_a_whole_output_needs_the_whole_input(nearest: str) -> None:
    """A resize of whole axes gets whole axes, also where it looks at only some of their rows."""
    model = make_single(
        "Resize", {"x": X4}, {"s": SIZES}, order=["x", "", "", "s"], nearest_mode=nearest
    )
    boxes = {"y0": Region.full((1, 2, 2, 7))}
    (got,) = run_box(load_graph(model), {"x": X4}, boxes)
    np.testing.assert_array_equal(got, run_whole(model, {"x": X4})[0])


def test_crop_and_resize() -> None:
    """A resize of part of its input keeps the part that it was told."""
    roi = np.asarray([0, 0, 0.2, 0.3, 1, 1, 0.8, 0.9], np.float32)
    model = make_single(
        "Resize",
        {"x": X4},
        {"roi": roi, "s": np.asarray([1, 2, 3, 10], np.int64)},
        order=["x", "roi", "", "s"],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
    )
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_kept_aspect_ratio(policy: str) -> None:
    """A resize that keeps the ratio of its axes is exact for any box."""
    model = make_single(
        "Resize",
        {"x": X4},
        {"s": np.asarray([7, 17], np.int64)},
        order=["x", "", "", "s"],
        mode="linear",
        axes=[2, 3],
        keep_aspect_ratio_policy=policy,
    )
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


def test_cubic_scale_near_one() -> None:
    """A cubic resize whose extent stays, but whose scale is not 1, needs its axis whole."""
    scales = np.asarray([1, 1, 1, 1.05], np.float32)
    model = make_single("Resize", {"x": X4}, {"s": scales}, order=["x", "", "s"], mode="cubic")
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])
