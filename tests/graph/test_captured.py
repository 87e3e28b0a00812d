"""What a subgraph reads from outside is known once, and everyone asks the node."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from benchmarks.uniform import UniformOptions, plan_uniform
from onnx import TensorProto, helper, numpy_helper

from partita.cluster import Cluster
from partita.compile import compile_plan
from partita.exactness.compare import check_exactness
from partita.graph import Graph, load_graph
from partita.graph.node import wrap_node
from partita.graph.regions import RegionMap
from partita.regions import Region

SHAPE = (1, 2, 4, 4)
make_node = helper.make_node


def describe(
    name: str, shape: tuple[int, ...] = SHAPE, kind: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    """Return a description of an input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def sparse(name: str) -> onnx.SparseTensorProto:
    """Return the constant (0, 3, 0, 0) without its zeros."""
    values = numpy_helper.from_array(np.full(1, 3, np.float32), name)
    places = numpy_helper.from_array(np.ones(1, np.int64), f"{name}-places")
    return helper.make_sparse_tensor(values, places, [4])


def body(op: str, result: str) -> onnx.GraphProto:
    """Return a subgraph that reads ``e`` from outside and a sparse constant of its own."""
    nodes = [
        make_node("Add", ["e", f"{result}-own"], [f"{result}-sum"]),
        make_node(op, [f"{result}-sum", "k"], [result]),
    ]
    graph = helper.make_graph(nodes, result, [], [describe(result)])
    graph.sparse_initializer.append(sparse(f"{result}-own"))
    return graph


def loop_body() -> onnx.GraphProto:
    """Return a loop's body, in which a branch of an If reads ``e``, two levels outside."""
    choice = {"then_branch": body("Mul", "t"), "else_branch": body("Sub", "f")}
    nodes = [
        make_node("If", ["again"], ["chosen"], **choice),
        make_node("Add", ["carried", "chosen"], ["after"]),
        make_node("Identity", ["again"], ["go-on"]),
    ]
    scalar = ("count", (), TensorProto.INT64), ("again", (), TensorProto.BOOL)
    inputs = [*(describe(*facts) for facts in scalar), describe("carried")]
    outputs = [describe("go-on", (), TensorProto.BOOL), describe("after")]
    return helper.make_graph(nodes, "loop", inputs, outputs)


def scan_body() -> onnx.GraphProto:
    """Return a scan's body: the sum of all rows so far and of what ``e`` holds."""
    nodes = [
        make_node("ReduceSum", ["e"], ["whole"], keepdims=0),
        make_node("Add", ["before", "row"], ["both"]),
        make_node("Add", ["both", "whole"], ["state"]),
        make_node("Identity", ["state"], ["line"]),
    ]
    line = SHAPE[1:]
    inputs, outputs = [
        [describe(n, line) for n in pair] for pair in (["before", "row"], ["state", "line"])
    ]
    return helper.make_graph(nodes, "scan", inputs, outputs)


def control(op: str) -> list[onnx.NodeProto]:
    """Return a control flow operator that makes ``y`` and reads ``e`` within itself."""
    if op == "If":
        return [
            make_node(
                op, ["yes"], ["y"], then_branch=body("Mul", "t"), else_branch=body("Add", "f")
            )
        ]
    if op == "Loop":
        return [
            make_node(op, ["trips", "yes", "x"], ["looped"], body=loop_body()),
            make_node("Reshape", ["looped", "shape"], ["y"]),
        ]
    return [
        make_node("ReduceMax", ["x"], ["start"], axes=[0], keepdims=0),
        make_node(op, ["start", "x"], ["end", "y"], body=scan_body(), num_scan_inputs=1),
    ]


def control_graph(op: str) -> Graph:
    """Return a network with one such operator after an elementwise layer."""
    constants = {
        "k": np.full(1, 2, np.float32),
        "yes": np.array(True),
        "trips": np.array(3),
        "shape": np.array(SHAPE),
        "w": np.full((2, 2, 1, 1), 0.5, np.float32),
    }
    graph = helper.make_graph(
        [make_node("Conv", ["x", "w"], ["e"]), *control(op)],
        "control",
        [describe("x")],
        [describe("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return load_graph(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )


@pytest.mark.parametrize("op", ["If", "Loop", "Scan"])
def test_divided_control_flow_gets_what_its_body_reads(op: str) -> None:
    """The box of a tensor that a body reads is whole, and the divided network is the whole one."""
    graph = control_graph(op)
    node = next(node for node in graph.nodes if node.op == op)
    assert node.captured == (("e",) if op == "Scan" else ("e", "k"))
    layer = next(layer for layer in graph.layers if layer.kind == op)
    whole = Region.full(SHAPE)
    needs = graph.remember(RegionMap).walk(layer, {"y": whole.with_axis(2, (0, 1))}).needs
    assert needs["e"] == whole
    cluster = Cluster.of(["a", "b"])
    plan = plan_uniform(graph, cluster, UniformOptions("rows", (1, 2)))
    feeds = {"x": np.random.default_rng(2).standard_normal(SHAPE, np.float32)}
    errors = check_exactness(graph, compile_plan(graph, plan, cluster), [feeds])
    assert max(error.relative for error in errors) <= 1e-6


def test_lists_of_subgraphs_count_and_sparse_constants_do_not() -> None:
    """A GRAPHS attribute is read like a GRAPH; a body's own sparse constants come from nowhere."""
    node = wrap_node(
        make_node("Choose", ["x"], ["y"], domain="odd", cases=[body("Mul", "t"), body("Sub", "f")]),
        0,
    )
    assert node.proto.attribute[0].type == onnx.AttributeProto.GRAPHS
    assert node.captured == ("e", "k")
    assert node.reads == ("x", "e", "k")


def test_regions_are_one_map_per_graph() -> None:
    """Who asks for a graph's regions gets the same memory; another graph has its own."""
    graph = control_graph("If")
    assert graph.remember(RegionMap) is graph.remember(RegionMap)
    assert graph.remember(RegionMap) is not control_graph("If").remember(RegionMap)
