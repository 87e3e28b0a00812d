"""Pools that round their output up have as many windows as ONNX Runtime gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from partita.graph import load_graph
from partita.graph.pooling import count_windows
from tests.graph.rules.single import assert_boxes_equal, make_single, run_whole

X4 = np.random.default_rng(3).standard_normal((1, 3, 8, 9), np.float32)


@pytest.mark.parametrize("opset", [11, 18, 22])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("pads", [(0, 0), (1, 0), (1, 2), (2, 2)])
def test_windows_are_counted_as_they_run(op: str, opset: int, pads: tuple[int, int]) -> None:
    """The extent of a rounded-up pool is that of ONNX Runtime, whatever ONNX's shape rules say."""
    for kernel in (1, 2, 3):
        for stride in (1, 2, 3):
            if max(pads) >= kernel:
                continue
            attrs = {"kernel_shape": [kernel, 1], "strides": [stride, 1]}
            attrs["pads"] = [pads[0], 0, pads[1], 0]
            model = make_single(op, {"x": X4}, opset=opset, ceil_mode=1, **attrs)
            (whole,) = run_whole(model, {"x": X4})
            graph = load_graph(model)
            assert graph.tensors["y0"].shape == whole.shape
            assert count_windows(8, pads, kernel, stride, ceil=True) == whole.shape[2]


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("strides", [[3, 3], [3, 2], [2, 3]])
def test_boxes_where_one_axis_loses_its_last_window(op: str, strides: list[int]) -> None:
    """Boxes are exact where one axis rounds up and the other has its last window dropped."""
    attrs: dict[str, Any] = {"kernel_shape": [2, 3], "strides": strides, "pads": [1, 0, 1, 1]}
    model = make_single(op, {"x": X4}, ceil_mode=1, **attrs)
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3], count=20)


def test_shapes_after_a_dropped_window_follow() -> None:
    """What is computed from such a pool has shapes that follow from the true extent."""
    model = make_single("MaxPool", {"x": X4}, ceil_mode=1, kernel_shape=[1, 1], strides=[3, 5])
    node = model.graph.node.add(op_type="Flatten", input=["y0"], output=["flat"])
    node.name = "flat"
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("flat", 1, None))
    assert load_graph(model).tensors["flat"].shape == run_whole(model, {"x": X4})[0].shape
