"""How much work a node is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from partita.graph.node import Node

Shape = tuple[int, ...]
#: Shape of a tensor or constant; -1 in it where it depends on the data.
ShapeOf = Callable[[str], Shape]

#: Place of the second operand among the inputs; the first is the first input.
_SECOND = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1,
           "MatMulInteger": 1, "QLinearConv": 3, "QLinearMatMul": 3}  # fmt: skip


@dataclass(frozen=True)
class Products:
    """The matrix products that a convolution or a matrix product is.

    Attributes:
        rows: Of the first matrix: positions of a convolution's output.
        inner: Its columns, as many as the second one's rows: what is summed over.
        columns: Of the second matrix: filters of one group.
        count: How many products of that size: groups, or matrices of a batch.
        operands: The tensors or constants that are multiplied.
    """

    rows: int
    inner: int
    columns: int
    count: int
    operands: tuple[str, str]

    @property
    def macs(self) -> int:
        """The multiply-accumulates of all of them."""
        return self.rows * self.inner * self.columns * self.count


def find_products(node: Node, shape_of: ShapeOf) -> Products | None:
    """The products of a convolution or a matrix product; None for other nodes.

    None, too, where a shape depends on the data. A transposed convolution multiplies each
    input element by each of its filters' taps.
    """
    place = _SECOND.get(node.op)
    if node.domain or place is None:
        return None
    operands = (node.inputs[0], node.inputs[place])
    first, second, output = (shape_of(name) for name in (*operands, node.outputs[0]))
    if min((*first, *second, *output), default=0) < 0:
        return None
    if node.op in ("Conv", "ConvInteger", "QLinearConv"):
        groups = int(node.attrs.get("group", 1))
        positions = output[0] * prod(output[2:])
        return Products(positions, prod(second[1:]), second[0] // groups, groups, operands)
    if node.op == "ConvTranspose":
        groups = int(node.attrs.get("group", 1))
        positions = first[0] * prod(first[2:])
        return Products(positions, first[1] // groups, prod(second[1:]), groups, operands)
    if node.op == "Gemm":
        inner = first[0] if node.attrs.get("transA", 0) else first[1]
        return Products(output[0], inner, output[1], 1, operands)
    columns = second[-1] if len(second) > 1 else 1
    count = prod(second[:-2])
    rows = prod(output) // max(1, count * columns)
    return Products(rows, first[-1], columns, count, operands)
