"""Max pooling whose indices are used: they speak of the whole input."""

from __future__ import annotations

import numpy as np
from onnx import helper

from partita.graph import load_graph
from partita.graph.rules import rule_of
from partita.graph.splits import row_axes
from tests.models import make_model


def test_pooling_with_indices_runs_whole() -> None:
    """Indices count the elements of the whole input, so that no part of it can give them."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node(
            "MaxPool", ["c"], ["p", "ix"], name="pool", kernel_shape=[2, 2], strides=[2, 2]
        ),
        helper.make_node("Cast", ["ix"], ["i"], name="cast", to=1),
    ]
    weights = {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32)}
    graph = load_graph(make_model(nodes, {"x": (1, 3, 18, 18)}, ["p", "i"], weights))
    axes = row_axes(graph)
    assert axes.axis("p") is axes.axis("ix") is None
    assert rule_of(graph.nodes[1], graph.opset).barrier
    assert not rule_of(graph.nodes[0], graph.opset).barrier
