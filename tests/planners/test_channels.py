"""Output channels of tensors of tokens and features: what is divided is what the weights are."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.uniform import UniformOptions, plan_uniform
from onnx import NodeProto, TensorProto, helper, numpy_helper

from partita.cluster import Cluster
from partita.compile import compile_plan, work_builder
from partita.exactness.compare import TOLERANCE, check_exactness
from partita.graph import Graph
from partita.graph.splits import row_axes
from partita.plan import Plan
from partita.planners import DraftStage, Evaluator, PlanOptions, find_plan
from tests.planners.fakes import make_cost, make_graph

_TOKENS, _WIDE, _LESS = 6, 1280, 1024


def _dense_layers() -> Graph:
    """Return two products of tokens with matrices, and one of matrices; large constants only."""
    rng = np.random.default_rng(3)

    def weights(name: str, *shape: int) -> TensorProto:
        array = rng.normal(scale=shape[0] ** -0.5, size=shape).astype(np.float32)
        return numpy_helper.from_array(array, name)

    def fixed(name: str, *values: int) -> TensorProto:
        return numpy_helper.from_array(np.asarray(values, np.int64), name)

    def node(op: str, inputs: str, output: str, **attrs: int) -> NodeProto:
        return helper.make_node(op, inputs.split(), [output], name=output, **attrs)

    parts = [
        *(weights("w0", 8, _WIDE), weights("b0", _WIDE), weights("w1", _WIDE, _LESS)),
        *(weights("w2", _LESS, _LESS), weights("b2", _LESS), fixed("flat", _TOKENS, _LESS)),
        node("MatMul", "x w0", "m0"),
        node("Add", "m0 b0", "a0"),
        node("Relu", "a0", "r0"),
        node("MatMul", "r0 w1", "m1"),
        node("Reshape", "m1 flat", "f"),
        node("Gemm", "f w2 b2", "y", transB=1),
    ]
    return make_graph(parts, {"x": (1, _TOKENS, 8)}, ["y"])


def _check_run(graph: Graph, plan: Plan, cluster: Cluster) -> None:
    feeds = np.random.default_rng(0).normal(size=(1, _TOKENS, 8)).astype(np.float32)
    compiled = compile_plan(graph, plan, cluster)
    for difference in check_exactness(graph, compiled, [{"x": feeds}]):
        assert difference.relative <= TOLERANCE


@pytest.mark.parametrize("layer", ["m0", "m1", "y"])
def test_features_are_divided_and_weights_shrink(layer: str) -> None:
    """Three quarters of the features are three quarters of the weights, in price and fragments."""
    graph = _dense_layers()
    cost = make_cost(graph, 1e8, 1e8)
    evaluator = Evaluator(cost, PlanOptions())
    place = evaluator.problem.outline.order.index(layer)
    features = evaluator.problem.outline.channels(place, place + 1)
    shape = graph.tensors[graph.layer(layer).outputs[0]].shape
    assert features == shape[-1] > _TOKENS

    cuts = (0, features // 4, features)
    stage = DraftStage(place, place + 1, "output_channels", ("d0", "d1"), cuts)
    before = DraftStage(0, place, "none", ("d0",))
    after = DraftStage(place + 1, len(evaluator.problem.outline), "none", ("d0",))
    draft = tuple(one for one in (before, stage, after) if one.start < one.stop)
    plan = evaluator.problem.plan(draft)
    divided = plan.stages[draft.index(stage)]
    spans = [box.bounds[-1] for shard in divided.shards for box in shard.boxes.values()]
    assert spans == [(0, cuts[1]), (cuts[1], features)]

    works = work_builder(graph)
    priced = [works.stage(divided.layers, shard.boxes).weight_bytes for shard in divided.shards]
    whole = graph.layer(layer).weight_bytes
    assert priced == [whole // 4, whole - whole // 4]
    layout = evaluator.problem.layout(plan)
    written = compile_plan(graph, plan, cost.cluster).program.fragments
    sizes = [
        (work.weight_bytes, info.weight_bytes)
        for work, info in zip(layout.works, written, strict=True)
        if any(one.layer == layer for one in work.layers)
    ]
    assert sizes == [(size, size) for size in priced]
    _check_run(graph, plan, cost.cluster)


def test_every_layer_divided_is_exact() -> None:
    """The plan of exactness checks divides the same axis, in every layer with weights."""
    graph, cluster = _dense_layers(), Cluster.of(["a", "b"])
    plan = plan_uniform(graph, cluster, UniformOptions("output_channels", (1.0, 3.0)))
    for stage in plan.stages:
        if stage.layers[0] in ("m0", "m1", "y"):
            boxes = [box for shard in stage.shards for box in shard.boxes.values()]
            assert [box.bounds[-1][0] for box in boxes] == [0, boxes[0].bounds[-1][1]]
    _check_run(graph, plan, cluster)


def test_best_divides_features_exactly() -> None:
    """Where links are fast, ``best`` divides along channels, and the plan answers the same."""
    graph = _dense_layers()
    cost = make_cost(graph, 1e6, 1e6, bandwidth=1e9)
    result = find_plan(
        cost, options=PlanOptions(axes=("output_channels",), most_s=5.0, max_evaluations=200)
    )
    assert any(stage.axis == "output_channels" for stage in result.plan.stages)
    _check_run(graph, result.plan, cost.cluster)


def test_products_of_activations_are_divided_by_heads() -> None:
    """Attention has no weights to cut: its heads are the axis along which all operands are cut."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["k"], name="turn", perm=[0, 1, 3, 2]),
        helper.make_node("Relu", ["x"], ["q"], name="query"),
        helper.make_node("MatMul", ["q", "k"], ["s"], name="scores"),
        helper.make_node("MatMul", ["s", "x"], ["y"], name="values"),
    ]
    graph = make_graph(nodes, {"x": (1, 4, 16, 8)}, ["y"])
    assert [row_axes(graph).channel_axis(name) for name in ("scores", "values")] == [1, 1]


def test_weights_that_come_first_are_cut_by_their_rows() -> None:
    """Where the left operand is the weights, rows of the product are the channels."""
    parts = [
        numpy_helper.from_array(np.ones((10, 6), np.float32), "w"),
        helper.make_node("MatMul", ["w", "x"], ["y"], name="product"),
    ]
    graph = make_graph(parts, {"x": (1, 6, 20)}, ["y"])
    assert row_axes(graph).channel_axis("product") == 1
