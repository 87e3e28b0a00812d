"""Folding has an end: a file of a few bytes may ask for gigabytes of constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

from partita.graph import load_graph
from partita.graph.mutable_graph import GROWTH_BYTES
from tests.models import Array, make_model

#: More floats than the limit has bytes for.
MANY = GROWTH_BYTES // 4 + 10**6


def node(op: str, reads: Sequence[str], target: str, **attrs: object) -> onnx.NodeProto:
    """Return a node."""
    return helper.make_node(op, reads, [target], **attrs)


MEAN = node("ReduceMean", ["big"], "m", keepdims=0)
ADD = node("Add", ["x", "m"], "y")
ONE = np.ones(1, np.float32)


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([node("ConstantOfShape", ["n"], "big")], {"n": np.array([MANY])}),
        ([node("Expand", ["k", "n"], "big")], {"n": np.array([MANY]), "k": ONE}),
        ([node("Tile", ["k", "n"], "big")], {"n": np.array([MANY]), "k": ONE}),
        (
            [node("Range", ["a", "n", "d"], "big")],
            {
                "a": np.array(0, np.float32),
                "n": np.array(MANY, np.float32),
                "d": np.array(1, np.float32),
            },
        ),
        (
            [node("Add", ["row", "column"], "big")],
            {
                "row": np.ones((1, 40000), np.float32),
                "column": np.ones((40000, 1), np.float32),
            },
        ),
        (
            [
                node("Mul", ["half", "two"], "n"),
                node("Cast", ["n"], "whole", to=onnx.TensorProto.INT64),
                node("ConstantOfShape", ["whole"], "big"),
            ],
            {"half": np.array([MANY / 2], np.float32), "two": np.array([2], np.float32)},
        ),
    ],
    ids=["ConstantOfShape", "Expand", "Tile", "Range", "Add", "chain"],
)
def test_what_is_beyond_all_weights_is_not_folded(
    nodes: list[onnx.NodeProto], constants: dict[str, Array]
) -> None:
    """Such a tensor is computed where it is needed; reading it takes no memory."""
    graph = load_graph(make_model([*nodes, MEAN, ADD], {"x": (1, 3)}, ["y"], constants))
    assert graph.weight_bytes < 10**6
    assert graph.tensors["big"].size_bytes > GROWTH_BYTES


def test_what_is_small_is_folded_however_it_is_made() -> None:
    """Shapes that only other constants tell are known in the next round."""
    nodes = [
        node("Add", ["n", "n"], "twice"),
        node("ConstantOfShape", ["twice"], "big"),
        node("NonZero", ["k"], "places"),
        node("ReduceSum", ["places"], "count", keepdims=0),
        node("Cast", ["count"], "c", to=onnx.TensorProto.FLOAT),
        MEAN,
        node("Add", ["x", "m"], "t"),
        node("Add", ["t", "c"], "y"),
    ]
    constants = {"n": np.array([500]), "k": ONE}
    graph = load_graph(make_model(nodes, {"x": (1, 3)}, ["y"], constants))
    assert [each.op for each in graph.nodes] == ["Add", "Add"]
