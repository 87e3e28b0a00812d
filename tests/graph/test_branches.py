"""``If`` nodes: the branch that is always taken is put in their place, others run whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from benchmarks.uniform import UniformOptions, plan_uniform
from onnx import TensorProto, helper, numpy_helper

from partita.cluster import Cluster
from partita.compile import check_plan, compile_plan
from partita.errors import ModelError
from partita.exactness.compare import check_exactness
from partita.exactness.interpret import run_program
from partita.graph import Graph, load_graph
from tests.models import Array, make_model, relative_difference, run_model

F = TensorProto.FLOAT
WEIGHT = np.random.default_rng(0).standard_normal((1, 3, 3, 3), np.float32)
ONE = np.array(1, np.int64)
FIRST = np.array([1], np.int64)
CAST = helper.make_node("Cast", ["z"], ["u"], to=F)


def branch(
    nodes: Sequence[onnx.NodeProto], output: str, constants: dict[str, Array] | None = None
) -> onnx.GraphProto:
    """Return a body without inputs and with one output of an unknown shape."""
    weights = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    value = helper.make_tensor_value_info(output, F, None)
    return helper.make_graph(nodes, "branch", [], [value], weights)


def squeeze_model(axis: int) -> onnx.ModelProto:
    """Return what torch writes for ``conv(x).squeeze(axis)`` where it does not know the extent."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1]),
        helper.make_node("Shape", ["t"], ["shape"]),
        helper.make_node("Gather", ["shape", "axis"], ["extent"], axis=0),
        helper.make_node("Equal", ["extent", "one"], ["is_one"]),
        helper.make_node(
            "If",
            ["is_one"],
            ["s"],
            then_branch=branch([helper.make_node("Squeeze", ["t", "axes"], ["u"])], "u"),
            else_branch=branch([helper.make_node("Identity", ["t"], ["u"])], "u"),
        ),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    axes = {"axis": np.array(axis, np.int64), "axes": np.array([axis], np.int64), "one": ONE}
    return make_model(nodes, {"x": ("n", 3, "h", "w")}, ["y"], {"w": WEIGHT, **axes}, opset=15)


def if_model(
    then: onnx.GraphProto, otherwise: onnx.GraphProto, constants: dict[str, Array]
) -> onnx.ModelProto:
    """Return a convolution and an ``If`` that reads its answer ``t``; the condition is given."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1]),
        helper.make_node("If", ["c"], ["s"], then_branch=then, else_branch=otherwise),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    return make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"], {"w": WEIGHT, **constants}, opset=15)


def assert_equals_file(model: onnx.ModelProto) -> Graph:
    """Check the graph against its file, whole and divided by rows; return it."""
    graph = load_graph(model, shapes={"x": (1, 3, 8, 8)})
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 3, 8, 8), np.float32)}
    whole = run_model(graph.to_model(), feeds)
    assert relative_difference(whole, run_model(model, feeds)) <= 1e-6
    cluster = Cluster.of(["a", "b"])
    plan = plan_uniform(graph, cluster, UniformOptions("rows", (1, 2)))
    check_plan(graph, plan, cluster)
    differences = check_exactness(graph, compile_plan(graph, plan, cluster), [feeds])
    assert max(difference.relative for difference in differences) <= 1e-5
    return graph


@pytest.mark.parametrize(("axis", "shape"), [(1, (1, 8, 8)), (2, (1, 1, 8, 8))])
def test_a_squeeze_of_what_is_known_is_no_question(axis: int, shape: tuple[int, ...]) -> None:
    """The extent is known once shapes are fixed, and one branch remains; the model is raised."""
    graph = assert_equals_file(squeeze_model(axis))
    assert not any(node.op == "If" for node in graph.nodes)
    assert graph.tensors["y"].shape == shape
    assert graph.opset == 18


@pytest.mark.parametrize("taken", [True, False])
def test_names_inside_of_a_branch_stay_apart(taken: bool) -> None:
    """Both branches may use one name; the new ones meet none of the graph around them."""
    then = branch(
        [helper.make_node("Mul", ["t", "k"], ["u"]), helper.make_node("Add", ["u", "k"], ["v"])],
        "v",
        {"k": np.array(2, np.float32)},
    )
    otherwise = branch(
        [helper.make_node("Sub", ["t", "k"], ["u"]), helper.make_node("Abs", ["u"], ["v"])],
        "v",
        {"k": np.array(5, np.float32)},
    )
    model = if_model(then, otherwise, {"c": np.array(taken)})
    model.graph.node.append(helper.make_node("Add", ["y", "s.branch.u"], ["z"]))
    model.graph.initializer.append(numpy_helper.from_array(np.array(7, np.float32), "s.branch.u"))
    model.graph.output[0].name = "z"
    assert_equals_file(model)


def test_a_question_inside_of_the_answer_is_asked_next() -> None:
    """A branch may hold an ``If``, a loop that captures its names, and a constant as its output."""
    inner = helper.make_node(
        "If",
        ["d"],
        ["v"],
        then_branch=branch([], "k", {"k": np.array(3, np.float32)}),
        else_branch=branch([helper.make_node("Neg", ["u"], ["v"])], "v"),
    )
    body = helper.make_graph(
        [
            helper.make_node("Add", ["a", "u"], ["b"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("a", F, [1, 1, 8, 8]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("b", F, [1, 1, 8, 8]),
        ],
    )
    then = branch(
        [
            helper.make_node("Sigmoid", ["t"], ["u"]),
            inner,
            helper.make_node("Mul", ["u", "v"], ["p"]),
            helper.make_node("Loop", ["three", "", "p"], ["q"], body=body),
        ],
        "q",
        {"three": np.array(3, np.int64), "d": np.array(True)},
    )
    model = if_model(then, branch([helper.make_node("Neg", ["t"], ["n"])], "n"), {"c": FIRST > 0})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", F, [1, 1, 8, 8]))
    graph = assert_equals_file(model)
    assert [node.op for node in graph.nodes if node.op in ("If", "Loop")] == ["Loop"]


def test_a_branch_that_the_data_choose_runs_whole() -> None:
    """What stays is a layer that nobody divides, and others are divided around it."""
    shape = [1, 1, 8, 8]
    bodies = [branch([helper.make_node(op, ["t"], ["u"])], "u") for op in ("Relu", "Neg")]
    for body in bodies:
        body.output[0].CopyFrom(helper.make_tensor_value_info("u", F, shape))
    model = if_model(bodies[0], bodies[1], {})
    model.graph.node.insert(1, helper.make_node("ReduceMax", ["t"], ["m"], keepdims=0))
    model.graph.node.insert(2, helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL))
    graph = assert_equals_file(model)
    assert [layer.kind for layer in graph.layers if layer.barrier] == ["If"]


def squeezing(axis: int, read: str = "t") -> onnx.GraphProto:
    """Return a body that squeezes an axis where its extent is 1, as torch writes it."""
    nodes = [
        helper.make_node("Shape", [read], ["shape"]),
        helper.make_node("Gather", ["shape", "axis"], ["extent"], axis=0),
        helper.make_node("Equal", ["extent", "one"], ["is_one"]),
        helper.make_node(
            "If",
            ["is_one"],
            ["u"],
            then_branch=branch([helper.make_node("Squeeze", [read, "axes"], ["v"])], "v"),
            else_branch=branch([helper.make_node("Identity", [read], ["v"])], "v"),
        ),
    ]
    numbers = {"axis": np.array(axis, np.int64), "axes": np.array([axis], np.int64), "one": ONE}
    return branch(nodes, "u", numbers)


def chosen_model(then: onnx.GraphProto, otherwise: onnx.GraphProto) -> onnx.ModelProto:
    """Return a model whose second input ``rate`` chooses the branch, as a sampling rate does."""
    model = if_model(then, otherwise, {"known": np.array(16000, np.int64)})
    model.graph.input.append(helper.make_tensor_value_info("rate", TensorProto.INT64, []))
    model.graph.node.insert(1, helper.make_node("Equal", ["rate", "known"], ["c"]))
    return model


@pytest.mark.parametrize("rate", [16000, 8000])
def test_an_input_may_choose_between_branches_of_one_shape(rate: int) -> None:
    """No inference sees through the questions within, but both branches answer alike in shape."""
    negated = squeezing(1, "n")
    negated.node.insert(0, helper.make_node("Neg", ["t"], ["n"]))
    model = chosen_model(squeezing(1), negated)
    graph = load_graph(model)
    assert graph.tensors["y"].shape == (1, 8, 8)
    assert [layer.kind for layer in graph.layers if layer.barrier] == ["If"]
    rows = np.random.default_rng(1).standard_normal((1, 3, 8, 8), np.float32)
    feeds: dict[str, Array] = {"x": rows, "rate": np.array(rate)}
    cluster = Cluster.of(["a", "b"])
    plan = plan_uniform(graph, cluster, UniformOptions("rows", (1, 2)))
    compiled = compile_plan(graph, plan, cluster)
    assert max(d.relative for d in check_exactness(graph, compiled, [feeds])) <= 1e-5
    outputs, _ = run_program(compiled, feeds)
    assert relative_difference([outputs["y"]], run_model(model, feeds)) <= 1e-6


def test_branches_of_two_shapes_depend_on_the_data() -> None:
    """Nothing is made up where the answers differ in shape, or one has no fixed shape."""
    growing = branch([helper.make_node("NonZero", ["t"], ["z"]), CAST], "u")
    flat = branch([helper.make_node("Flatten", ["t"], ["u"])], "u")
    for otherwise in (flat, growing):
        graph = load_graph(chosen_model(squeezing(1), otherwise))
        assert min(graph.tensors["y"].shape) < 0


def test_a_branch_that_cannot_run_with_these_shapes() -> None:
    """The engine refuses the model as a whole, whichever branch is taken: so it is said at once."""
    wrong = squeezing(1)
    wrong.node.append(helper.make_node("Conv", ["u", "w"], ["p"]))  # of three axes, not four
    wrong.output[0].name = "p"
    with pytest.raises(ModelError, match=r"^Model 'small' cannot run: .*\(If\)"):
        load_graph(chosen_model(squeezing(1), wrong))
