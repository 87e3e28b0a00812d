"""A plan's network beside the file that it was read from, as the file is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from partita.errors import ModelError
from partita.exactness.compare import TOLERANCE, compare_with_file
from partita.graph import load_graph
from tests.models import make_model

FEEDS = {"x": np.random.default_rng(5).standard_normal((1, 3, 8, 8), np.float32)}


def _write(folder: Path, outer: str, inner: str) -> Path:
    """Two convolutions and a choice by the answer, weights in a file; some nodes share a name."""
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((3, 3, 3, 3), np.float32) for name in ("w1", "w2")}
    branches = {}
    for key, ops in (("then_branch", ("Relu", "Abs")), ("else_branch", ("Neg", "Relu"))):
        nodes = [
            helper.make_node(ops[0], ["b"], [f"{key}.p"], name="q"),
            helper.make_node(ops[1], [f"{key}.p"], [f"{key}.o"], name=inner),
        ]
        outputs = [helper.make_empty_tensor_value_info(f"{key}.o")]
        branches[key] = helper.make_graph(nodes, key, [], outputs)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="n", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w2"], ["b"], name=outer, pads=[1, 1, 1, 1]),
        helper.make_node("ReduceSum", ["b"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["i"], **branches),
        helper.make_node("Relu", ["i"], ["y"], name="last"),
    ]
    model = make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"], weights | {"zero": np.float32(0)})
    path = folder / "m.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


@pytest.mark.parametrize(("outer", "inner"), [("m", "q"), ("n", "r"), ("n", "q")])
def test_nodes_may_share_a_name(tmp_path: Path, outer: str, inner: str) -> None:
    """The engine refuses such a file; what it answers is the same, in branches, too."""
    path = _write(tmp_path, outer, inner)
    graph = load_graph(path)
    names = [layer.name for layer in graph.layers]
    assert len(set(names)) == len(names)
    for feeds in (FEEDS, {"x": -FEEDS["x"]}):
        assert compare_with_file(graph, path, [feeds]).relative <= TOLERANCE


def test_other_weights_in_such_a_file_are_seen(tmp_path: Path) -> None:
    """It is the file that is compared with, not what was read of it."""
    path = _write(tmp_path, "n", "q")
    graph = load_graph(path)
    data = np.fromfile(tmp_path / "w.bin", np.float32)
    data[: data.size // 2] *= 2
    data.tofile(tmp_path / "w.bin")
    assert compare_with_file(graph, path, [FEEDS]).relative > 100 * TOLERANCE


def test_a_file_that_the_engine_cannot_run_is_one_line(tmp_path: Path) -> None:
    """The reason is the engine's."""
    path = _write(tmp_path, "n", "q")
    graph = load_graph(path)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelError, match=r"'.*m\.onnx' cannot be run as it is.*w\.bin"):
        compare_with_file(graph, path, [FEEDS])
