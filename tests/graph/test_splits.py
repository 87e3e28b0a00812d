"""Row axes and ways to divide, found by probing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from partita.graph import Graph, load_graph
from partita.graph.splits import row_axes


def _weights(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def _load(
    nodes: Sequence[NodeProto], shape: tuple[int, ...], out: str, weights: Sequence[TensorProto]
) -> Graph:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)],
        weights,
    )
    return load_graph(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def test_channels_last_input_follows_its_transpose() -> None:
    """The rows of an input of height x width x channels are its second axis."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w"], ["y"], name="conv"),
    ]
    graph = _load(nodes, (1, 12, 16, 3), "y", [_weights("w", 4, 3, 3, 3)])
    axes = row_axes(graph)
    assert axes.axis("x") == 1
    assert axes.axis(graph.layer("conv").outputs[0]) == 2


def test_rows_end_at_flatten_and_at_a_mean_over_space() -> None:
    """A flattened tensor has no rows; a mean over space can be summed in parts."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv"),
        helper.make_node("GlobalAveragePool", ["a"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "v"], ["y"], name="dense"),
    ]
    graph = _load(nodes, (1, 3, 8, 8), "y", [_weights("w", 4, 3, 3, 3), _weights("v", 4, 5)])
    axes = row_axes(graph)
    assert axes.splits("conv") == ("rows", "output_channels", "input_channels")
    assert axes.splits("pool") == ("reduce",)
    assert axes.splits("flat") == ()
    assert axes.splits("dense") == ("output_channels", "input_channels")


def test_rows_survive_a_reshape_that_joins_rows_and_columns() -> None:
    """A detector's head keeps rows when height and width become one axis, counted in whole rows."""
    shape = numpy_helper.from_array(np.array([1, 48, 2], np.int64), "shape")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv"),
        helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 3, 1], name="turn"),
        helper.make_node("Reshape", ["t", "shape"], ["y"], name="join"),
    ]
    graph = _load(nodes, (1, 3, 8, 6), "y", [_weights("w", 2, 3, 1, 1), shape])
    axes = row_axes(graph)
    assert (axes.axis("y"), axes.unit("y"), axes.rows("y")) == (1, 6, 8)


def test_concatenation_along_rows_ends_them() -> None:
    """Where maps are joined one below the other, half of the output is not half of each input."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="high"),
        helper.make_node("MaxPool", ["a"], ["b"], name="low", kernel_shape=[2, 1], strides=[2, 1]),
        helper.make_node("Concat", ["a", "b"], ["y"], name="join", axis=2),
    ]
    graph = _load(nodes, (1, 3, 8, 6), "y", [_weights("w", 2, 3, 1, 1)])
    axes = row_axes(graph)
    assert axes.splits("join") == ()
    assert "rows" in axes.splits("low")


def test_a_window_over_all_rows_ends_them() -> None:
    """Rows end where the halo of each half is the whole map."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])]
    graph = _load(nodes, (1, 3, 2, 2), "y", [_weights("w", 2, 3, 3, 3)])
    assert "rows" not in row_axes(graph).splits("conv")
