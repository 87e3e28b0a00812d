"""A network so small that every method plans it in a moment."""

from __future__ import annotations

import numpy as np
from onnx import helper

from partita.graph import Graph, load_graph
from tests.models import make_model


def small_graph(
    name: str = "", size: int = 32, widths: tuple[int, ...] = (16, 16, 32, 32)
) -> Graph:
    """Return four convolutions with two pools between, and a dense layer, on a square image."""
    rng = np.random.default_rng(0)
    nodes, consts, last, channels = [], {}, "x", 3
    for place, width in enumerate(widths):
        consts[f"w{place}"] = rng.standard_normal((width, channels, 3, 3), np.float32)
        pads = [1, 1, 1, 1]
        names = (f"conv{place}", f"relu{place}", f"pool{place}")
        nodes.append(
            helper.make_node("Conv", [last, f"w{place}"], [f"c{place}"], names[0], pads=pads)
        )
        nodes.append(helper.make_node("Relu", [f"c{place}"], [f"r{place}"], names[1]))
        last, channels = f"r{place}", width
        if place in (1, 3):
            stride = {"kernel_shape": [2, 2], "strides": [2, 2]}
            nodes.append(helper.make_node("MaxPool", [last], [f"p{place}"], names[2], **stride))
            last = f"p{place}"
    consts["w"] = rng.standard_normal((widths[-1] * (size // 4) ** 2, 10), np.float32)
    nodes.append(helper.make_node("Flatten", [last], ["flat"], "flatten"))
    nodes.append(helper.make_node("Gemm", ["flat", "w"], ["y"], "dense"))
    return load_graph(make_model(nodes, {"x": [1, 3, size, size]}, ["y"], consts))
