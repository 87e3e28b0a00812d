"""A small network whose quantised values can be followed, and samples for it."""

from __future__ import annotations

import numpy as np
from onnx import helper

from partita.graph import Graph, load_graph
from partita.quantisation.samples import Feeds
from tests.models import make_model


def small_graph() -> Graph:
    """Return two convolutions with ReLU, a pool between them, a sum, a mean and a dense layer."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w2", "b2"], ["c"], name="second", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "p"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["g"], name="mean"),
        helper.make_node("Flatten", ["g"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], name="dense"),
    ]
    constants = {
        "w1": rng.standard_normal((8, 3, 3, 3), np.float32) / 5,
        "b1": rng.standard_normal(8, np.float32),
        "w2": rng.standard_normal((8, 8, 3, 3), np.float32) / 8,
        "b2": rng.standard_normal(8, np.float32),
        "w3": rng.standard_normal((8, 5), np.float32),
        "b3": rng.standard_normal(5, np.float32),
    }
    graph = load_graph(make_model(nodes, {"x": [1, 3, 16, 16]}, ["y"], constants), name="small")
    graph.constants.update({name: array.copy() for name, array in graph.constants.items()})
    return graph  # whose weights may be changed


def draw_samples(count: int = 4) -> list[Feeds]:
    """Return inputs of the network between 0 and 1."""
    rng = np.random.default_rng(1)
    return [{"x": rng.random((1, 3, 16, 16), np.float32)} for _ in range(count)]


def fragile_graph() -> Graph:
    """Return a network with a layer whose large numbers nothing reads, and whose small ones count.

    With 8 bits for that layer's range the small numbers are lost, though its mean squared error is
    as little as that of others.
    """
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="fragile", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w2"], ["c"], name="second", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["g"], name="mean"),
        helper.make_node("Flatten", ["g"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w3"], ["y"], name="dense"),
    ]
    first = rng.standard_normal((8, 3, 3, 3), np.float32) / 100
    first[0] = 10
    second = rng.standard_normal((8, 8, 3, 3), np.float32)
    second[:, 0] = 0
    constants = {"w1": first, "w2": second, "w3": rng.standard_normal((8, 5), np.float32)}
    return load_graph(make_model(nodes, {"x": [1, 3, 16, 16]}, ["y"], constants), name="fragile")
