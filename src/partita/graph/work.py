"""How much work a node is."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from partita.graph.node import Node

Shape = tuple[int, ...]
#: Shape of a tensor or constant; -1 in it where it depends on the data.
ShapeOf = Callable[[str], Shape]


def count_macs(node: Node, shape_of: ShapeOf) -> int:
    """The multiply-accumulates of convolutions and matrix products, 0 for other nodes.

    A transposed convolution multiplies each input element by each of its filters' taps.
    """
    if node.domain:
        return 0
    match node.op:
        case "Conv" | "ConvInteger":
            return _volume(shape_of(node.outputs[0])) * prod(shape_of(node.inputs[1])[1:])
        case "QLinearConv":
            return _volume(shape_of(node.outputs[0])) * prod(shape_of(node.inputs[3])[1:])
        case "ConvTranspose":
            return _volume(shape_of(node.inputs[0])) * prod(shape_of(node.inputs[1])[1:])
        case "Gemm":
            rows, columns = shape_of(node.inputs[0])
            inner = rows if node.attrs.get("transA", 0) else columns
            return _volume(shape_of(node.outputs[0])) * inner
        case "MatMul" | "MatMulInteger" | "QLinearMatMul":
            return _volume(shape_of(node.outputs[0])) * shape_of(node.inputs[0])[-1]
    return 0


def _volume(shape: Shape) -> int:
    return prod(shape) if min(shape, default=0) >= 0 else 0
