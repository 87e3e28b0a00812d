"""Which matrix products convolutions and matrix products are."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from partita.graph import load_graph
from tests.models import make_model


def find(node: onnx.NodeProto, **shapes: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return rows, inner, columns and count of a node whose constants are named in capitals."""
    inputs = {name: shape for name, shape in shapes.items() if name.islower()}
    constants = {
        name: np.ones(shape, np.float32) for name, shape in shapes.items() if name.isupper()
    }
    graph = load_graph(make_model([node], inputs, list(node.output), constants))
    (layer,) = graph.layers
    (products,) = layer.products
    assert layer.macs == products.rows * products.inner * products.columns * products.count
    assert products.operands == tuple(node.input[:2])
    return products.rows, products.inner, products.columns, products.count


@pytest.mark.parametrize(
    ("op", "attributes", "shapes", "wanted"),
    [
        ("Conv", {"strides": [2, 2], "pads": [1, 1, 1, 1]},
         {"x": (2, 4, 8, 6), "W": (16, 4, 3, 3)}, (2 * 4 * 3, 36, 16, 1)),
        ("Conv", {"group": 4}, {"x": (1, 8, 5, 5), "W": (12, 2, 1, 1)}, (25, 2, 3, 4)),
        ("ConvTranspose", {"group": 2}, {"x": (1, 4, 3, 3), "W": (4, 5, 2, 2)}, (9, 2, 20, 2)),
        ("Gemm", {"transB": 1}, {"x": (3, 7), "W": (5, 7)}, (3, 7, 5, 1)),
        ("MatMul", {}, {"x": (2, 6, 7), "W": (7, 5)}, (12, 7, 5, 1)),
        ("MatMul", {}, {"x": (2, 3, 6, 7), "y": (2, 3, 7, 5)}, (6, 7, 5, 6)),
        ("MatMul", {}, {"x": (2, 3, 6, 7), "y": (3, 7, 5)}, (12, 7, 5, 3)),
        ("MatMul", {}, {"x": (6, 7), "W": (7,)}, (6, 7, 1, 1)),
    ],
)  # fmt: skip
def test_products_of_nodes(
    op: str, attributes: dict[str, Any], shapes: dict[str, Any], wanted: tuple[int, ...]
) -> None:
    """Rows, what is summed over, columns, and how many products of that size."""
    node = helper.make_node(op, list(shapes), ["out"], name="n", **attributes)
    assert find(node, **shapes) == wanted


def test_other_nodes_have_none() -> None:
    """Pooling multiplies no matrices."""
    node = helper.make_node("GlobalAveragePool", ["x"], ["out"], name="n")
    (layer,) = load_graph(make_model([node], {"x": (1, 2, 4, 4)}, ["out"], {})).layers
    assert layer.products == ()
    assert layer.macs == 0
