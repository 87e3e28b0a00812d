"""Tensors that are small by nature: what may differ there, and what may not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from benchmarks.uniform import UniformOptions, plan_uniform
from onnx import helper, numpy_helper

from partita.cluster import Cluster
from partita.compile import compile_plan
from partita.exactness.compare import (
    TOLERANCE,
    Difference,
    check_exactness,
    compare_answers,
    compare_with_file,
)
from partita.exactness.interpret import run_program
from partita.exactness.scale import Scales
from partita.graph import Graph, load_graph
from tests.models import Array, make_model

CLUSTER = Cluster.of(["a", "b"])
FEEDS = {"x": np.random.default_rng(5).standard_normal((1, 3, 16, 16), np.float32)}


def small_model(bias: float, *after: onnx.NodeProto, output: str = "s") -> onnx.ModelProto:
    """Return a head of a detector on a picture in which it sees nothing."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((16, 3, 3, 3), np.float32),
        "v": rng.standard_normal((1, 16, 3, 3), np.float32) * np.float32(0.01),
        "b": np.array([bias], np.float32),
        "flat": np.array([1, 256], np.int64),
        **dict.fromkeys(("scale", "variance"), np.full(16, 0.9, np.float32)),
        **dict.fromkeys(("shift", "mean"), np.full(16, 0.1, np.float32)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Conv", ["r", "v", "b"], ["z"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["z"], ["s"]),
        *after,
    ]
    return make_model(nodes, {"x": (1, 3, 16, 16)}, [output], weights)


def compare(graph: Graph, divided: Graph, axis: str) -> list[Difference]:
    """Return how far one graph, divided, is from another one as a whole, weighed."""
    plan = plan_uniform(divided, CLUSTER, UniformOptions(axis, (1, 2)))
    probe = partial(compile_plan, divided, plan, CLUSTER)
    return check_exactness(graph, compile_plan(divided, plan, CLUSTER), [FEEDS], None, probe)


def worst(differences: Sequence[Difference]) -> float:
    """Return the largest difference as a share of what it is measured against."""
    return max(difference.relative for difference in differences)


def node(op: str, *inputs: str, output: str) -> onnx.NodeProto:
    """Return a node of one output."""
    return helper.make_node(op, list(inputs), [output])


#: Gates, an argument times what saturates, exported as one operator or as several, and a bias that
#: makes their answers small.
GATES = {
    "SiLU": (-14, [node("Mul", "z", "s", output="y")]),
    "GELU": (
        -5,
        [
            node("Div", "z", "two", output="d"),
            node("Erf", "d", output="e"),
            node("Add", "e", "one", output="f"),
            node("Mul", "f", "z", output="g"),
            node("Mul", "half", "g", output="y"),
        ],
    ),
    "Mish": (
        -14,
        [
            node("Softplus", "z", output="p"),
            node("Tanh", "p", output="t"),
            node("Mul", "z", "t", output="y"),
        ],
    ),
    "one operator": (-5, [node("Gelu", "z", output="y")]),
    "a gate for others": (
        -14,
        [
            node("Transpose", "s", output="t"),
            node("Transpose", "t", output="u"),
            node("Mul", "u", "r", output="y"),
        ],
    ),
}


def gated_model(gate: str, bias: float) -> onnx.ModelProto:
    """Return ``small_model`` with a gate at its end."""
    model = small_model(bias, *GATES[gate][1], output="y")
    for name, value in {"two": 2**0.5, "one": 1.0, "half": 0.5}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.float32(value), name))
    model.opset_import[0].version = 20
    return model


@pytest.mark.parametrize("axis", ["rows", "tiles", "input_channels", "output_channels", "none"])
@pytest.mark.parametrize(
    ("output", "after"),
    [
        ("s", []),
        ("y", [helper.make_node("Reshape", ["s", "flat"], ["y"])]),
        ("y", [helper.make_node("Transpose", ["s"], ["y"], perm=[0, 2, 3, 1])]),
    ],
)
def test_rounding_behind_a_sigmoid_passes(
    axis: str, output: str, after: list[onnx.NodeProto]
) -> None:
    """All answers are near 1e-6, and the engine's sigmoid is off by 1e-7."""
    graph = load_graph(small_model(-14, *after, output=output))
    assert worst(compare(graph, graph, axis)) <= TOLERANCE


def test_what_is_wrong_before_a_sigmoid_fails() -> None:
    """A bias that is off by a tenth moves the answer by less than the engine does."""
    graph, other = load_graph(small_model(-14)), load_graph(small_model(-13.9))
    differences = compare(graph, other, "rows")
    output = [each for each in differences if each.tensor == "s"]
    assert worst(output) <= TOLERANCE
    argument = [each for each in differences if each.tensor == "z"]
    assert worst(argument) > 100 * TOLERANCE


def test_one_rule_for_answers_and_for_the_file(tmp_path: Path) -> None:
    """What ``check`` lets pass, a run's check and the comparison with the file let pass."""
    model = small_model(-14)
    graph = load_graph(model)
    plan = plan_uniform(graph, CLUSTER, UniformOptions("input_channels", (1, 2)))
    answer, _ = run_program(compile_plan(graph, plan, CLUSTER), FEEDS)
    off = {"s": answer["s"] + np.float32(1.5e-7)}
    assert 1.5e-7 / answer["s"].max() > TOLERANCE
    assert compare_answers(graph, [FEEDS], [off]).relative <= TOLERANCE
    assert compare_answers(graph, [FEEDS], [{"s": off["s"] * 3}]).relative > TOLERANCE
    onnx.save(model, tmp_path / "m.onnx")
    assert compare_with_file(graph, tmp_path / "m.onnx", [FEEDS]).relative <= TOLERANCE


def test_large_answers_have_their_own_magnitude() -> None:
    """Behind nothing that saturates, a difference is a share of the largest value."""
    graph = load_graph(small_model(-14))
    scales = Scales(graph, TOLERANCE)
    values: dict[str, Array] = {
        "z": np.array([-14.0, 2.0]),
        "s": np.array([1e-6, 0.88]),
        "r": np.array([0.0, 3.0]),
        "x": np.array([1.0]),
    }
    assert scales.sources(["z"]) == {"z"}
    assert scales.of("z", values) == 14
    # The slope at 0.88 times the argument's magnitude, and four steps of single precision.
    floor = 4 * float(np.finfo(np.float32).eps) / TOLERANCE
    assert scales.of("s", values) == pytest.approx(0.88 * 0.12 * 14 + floor)
    assert scales.arguments(["s"]) == {"z"}


@pytest.mark.parametrize("gate", GATES)
def test_an_argument_times_what_saturates_is_small_by_nature(gate: str) -> None:
    """A step of single precision at 1 counts as often as the other factor is large, no more."""
    graph = load_graph(gated_model(gate, GATES[gate][0]))
    plan = plan_uniform(graph, CLUSTER, UniformOptions("rows", (1, 2)))
    factor = "r" if gate == "a gate for others" else "z"
    answer, pieces = run_program(compile_plan(graph, plan, CLUSTER, {factor}), FEEDS)
    other = max(np.abs(array).max() for tensor, _, array in pieces if tensor == factor)
    step = other * np.float32(1.5e-7)
    assert step / np.abs(answer["y"]).max() > TOLERANCE
    assert compare_answers(graph, [FEEDS], [{"y": answer["y"] + step}]).relative <= TOLERANCE
    wrong = {"y": answer["y"] + 10 * step}
    assert compare_answers(graph, [FEEDS], [wrong]).relative > TOLERANCE


@pytest.mark.parametrize("gate", [None, *GATES])
def test_a_runs_answers_are_compared_before_saturation_too(gate: str | None) -> None:
    """A plan whose argument is wrong fails, though its small answers are within rounding."""
    bias = -14 if gate is None else GATES[gate][0]
    made = [
        load_graph(small_model(b) if gate is None else gated_model(gate, b))
        for b in (bias, bias - 0.001)
    ]
    graph, other = made
    plan = plan_uniform(other, CLUSTER, UniformOptions("rows", (1, 2)))
    answer, _ = run_program(compile_plan(other, plan, CLUSTER), FEEDS)
    assert compare_answers(graph, [FEEDS], [answer]).relative <= TOLERANCE
    probes = [partial(compile_plan, other, plan, CLUSTER)]
    worst_one = compare_answers(graph, [FEEDS], [answer], probes)
    assert worst_one.relative > TOLERANCE
    assert worst_one.tensor in ("z", "d", "p")
