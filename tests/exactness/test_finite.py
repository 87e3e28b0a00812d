"""Answers that hold NaN or infinities: said, and compared where a number is."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from benchmarks.uniform import UniformOptions, plan_uniform
from onnx import helper

from partita.cluster import Cluster
from partita.compile import compile_plan
from partita.exactness.compare import (
    TOLERANCE,
    check_exactness,
    compare_answers,
    compare_with_file,
    difference_of,
)
from partita.graph import Graph, load_graph
from partita.report import Checked
from partita.report.bundle import describe_non_finite
from tests.models import Array, make_model

CLUSTER = Cluster.of(["a", "b"])
FEEDS = {"x": np.random.default_rng(5).standard_normal((1, 2, 8, 8), np.float32)}


def _make_model(value: float) -> onnx.ModelProto:
    """A convolution of which one filter holds ``value``."""
    weights = np.random.default_rng(0).standard_normal((3, 2, 1, 1), np.float32)
    weights[1] = value
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    return make_model(nodes, {"x": (1, 2, 8, 8)}, ["y"], {"w": weights})


def _answer(graph: Graph) -> Array:
    plan = plan_uniform(graph, CLUSTER, UniformOptions("rows", (1, 1)))
    compiled = compile_plan(graph, plan, CLUSTER)
    (worst, *_) = check_exactness(
        graph, compiled, [FEEDS], None, partial(compile_plan, graph, plan, CLUSTER)
    )
    assert worst.is_within(TOLERANCE)
    assert worst.non_finite == 64
    with np.errstate(invalid="ignore"):
        return np.einsum("nchw,oc->nohw", FEEDS["x"], graph.constants["w"][:, :, 0, 0])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_same_pattern_passes_with_a_word(tmp_path: Path, value: float) -> None:
    """A third of the answer is no number, on both sides; the rest decides."""
    onnx.save(_make_model(value), tmp_path / "m.onnx")
    graph = load_graph(tmp_path / "m.onnx")
    answer = _answer(graph)
    same = compare_answers(graph, [FEEDS], [{"y": answer}])
    assert same.is_within(TOLERANCE)
    assert same.non_finite == 64
    file = compare_with_file(graph, tmp_path / "m.onnx", [FEEDS])
    assert (file.is_within(TOLERANCE), file.non_finite) == (True, 64)
    assert "64 values" in describe_non_finite(same.non_finite, same.is_measured)
    off = answer.copy()
    off[0, 0, 0, 0] += 1
    assert not compare_answers(graph, [FEEDS], [{"y": off}]).is_within(TOLERANCE)


@pytest.mark.parametrize(
    ("expected", "got"), [(np.nan, 0.0), (1.0, np.nan), (np.inf, -np.inf), (np.inf, np.nan)]
)
def test_another_pattern_fails(expected: float, got: float) -> None:
    """Even where anything finite would do: no rounding, and no wire, makes the one of the other."""
    whole, divided = np.ones((2, 4), np.float32), np.ones((2, 4), np.float32)
    whole[1, 2], divided[1, 2] = expected, got
    difference = difference_of("y", divided, whole)
    assert not difference.is_within(np.inf)
    assert "the two differ" in describe_non_finite(difference.non_finite, difference.is_measured)


def test_what_a_report_says() -> None:
    """A pass is qualified; lossy wires excuse a distance, and nothing else."""
    told = Checked(0.0, 1.0, 1, passed=True, non_finite=3)
    assert (told.is_failure, told.verdict.startswith("the same answer; not finite: 3")) == (0, 1)
    assert not Checked(0.1, 1.0, 1, passed=False, lossy=True).is_failure
    wrong = Checked(np.inf, 1.0, 1, passed=False, lossy=True, non_finite=3)
    assert wrong.is_failure
    assert wrong.verdict.startswith("NOT the same answer; not finite: in shape")
    assert Checked(0.0, 1.0, 1, passed=True).verdict == "the same answer"
