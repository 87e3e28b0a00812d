"""Shapes that no operator's rule tells: found by a run, or declared by the file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from benchmarks.uniform import UniformOptions, plan_uniform
from onnx import TensorProto, helper

from partita.cluster import Cluster
from partita.compile import check_plan, compile_plan
from partita.errors import RunError
from partita.exactness.compare import check_exactness
from partita.graph import Graph, load_graph
from tests.models import Array, make_model, random_inputs

F, I64 = TensorProto.FLOAT, TensorProto.INT64
WEIGHT = np.random.default_rng(0).standard_normal((4, 3, 3, 3), np.float32)
CONV = helper.make_node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1])


def declared_model(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int], kind: int = F, **constants: Array
) -> onnx.ModelProto:
    """Return a convolution ``t`` and nodes that make ``y``, of which the file declares a shape."""
    model = make_model(
        [CONV, *nodes], {"x": (1, 3, 8, 8)}, ["y"], {"w": WEIGHT, **constants}, opset=17
    )
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", kind, shape))
    return model


def divide(graph: Graph, feeds: dict[str, Array]) -> float:
    """Return how far a division by rows is from the whole, relative to its largest value."""
    cluster = Cluster.of(["a", "b"])
    plan = plan_uniform(graph, cluster, UniformOptions("rows", (1, 2)))
    check_plan(graph, plan, cluster)
    differences = check_exactness(graph, compile_plan(graph, plan, cluster), [feeds])
    return max(difference.relative for difference in differences)


def test_shapes_behind_the_engines_own_operators_are_found() -> None:
    """A run tells the shape, the shape is folded, and what is reshaped by it is divided."""
    nodes = [
        CONV,
        helper.make_node("QuickGelu", ["t"], ["g"], domain="com.microsoft", alpha=1.5),
        helper.make_node("Shape", ["g"], ["s"], start=0, end=2),
        helper.make_node("Concat", ["s", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["g", "to"], ["r"]),
        helper.make_node("QuickGelu", ["r"], ["h"], domain="com.microsoft", alpha=1.5),
        helper.make_node("Shape", ["h"], ["u"]),
        helper.make_node("Expand", ["h", "u"], ["y"]),
    ]
    constants = {"w": WEIGHT, "rest": np.array([8, 8], np.int64)}
    model = make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"], constants, opset=17)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    graph = load_graph(model)
    assert [node.op for node in graph.nodes] == ["Conv", "QuickGelu", "QuickGelu"]
    assert graph.tensors["y"].shape == (1, 4, 8, 8)
    assert divide(graph, random_inputs(model)) <= 1e-5


def body(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    """Return the body of a loop that carries ``a`` and hands on ``b``."""
    return helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), *nodes],
        "body",
        [
            helper.make_tensor_value_info("i", I64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("a", F, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("b", F, None),
        ],
    )


LOOP = [
    helper.make_node(
        "Loop", ["three", "", "t"], ["y"], body=body(helper.make_node("Tanh", ["a"], ["b"]))
    )
]
SEQUENCE = [
    helper.make_node("SequenceConstruct", ["t", "t"], ["q"]),
    helper.make_node("ConcatFromSequence", ["q"], ["y"], axis=1),
]
BOXES = [
    helper.make_node("Reshape", ["t", "four"], ["boxes"]),
    helper.make_node("ReduceMax", ["t"], ["m"], axes=[1], keepdims=1),
    helper.make_node("Reshape", ["m", "one"], ["scores"]),
    helper.make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"]),
]
NUMBERS = {
    "three": np.array(3, np.int64),
    "four": np.array([1, 64, 4], np.int64),
    "one": np.array([1, 1, 64], np.int64),
    "most": np.array([2], np.int64),
}
BOX_FEEDS = {"x": np.random.default_rng(3).uniform(0, 1, (1, 3, 8, 8)).astype(np.float32)}


@pytest.mark.parametrize(
    ("nodes", "shape", "kind"),
    [(LOOP, (1, 4, 8, 8), F), (SEQUENCE, (1, 8, 8, 8), F), (BOXES, (2, 3), I64)],
    ids=["Loop", "SequenceConstruct", "NonMaxSuppression"],
)
def test_outputs_of_a_declared_shape_are_planned(
    nodes: Sequence[onnx.NodeProto], shape: tuple[int, ...], kind: int
) -> None:
    """What makes them runs whole as the last layer, and what comes before it is divided."""
    graph = load_graph(declared_model(nodes, shape, kind, **NUMBERS))
    assert graph.tensors["y"].shape == shape
    assert graph.layers[-1].barrier
    assert not graph.layers[0].barrier
    assert divide(graph, BOX_FEEDS) <= 1e-5


def test_a_declaration_that_is_not_true_is_said_by_name() -> None:
    """The engine answers what it computes; a device says at once that it is no such piece."""
    graph = load_graph(declared_model(BOXES, (7, 3), I64, **NUMBERS))
    with pytest.raises(RunError, match=r"output 'o0' has shape 2x3, its declared shape is 7x3"):
        divide(graph, BOX_FEEDS)
