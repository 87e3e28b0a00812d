"""Which nodes of a quantised graph run on the engine's integer kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from partita.graph.arrays import Arrays
from partita.graph.integer_nodes import is_implied, is_product
from partita.graph.mutable_graph import Array
from partita.graph.node import Node
from partita.graph.pointwise import MOVING
from partita.regions import SUM_BITS, Packing

#: Bits of the widest codes that kernels multiply.
_MOST_BITS = 8
#: Part by which scales may differ that are products of others, rounded.
_SAME = 1e-5


def find_integer_nodes(
    nodes: Sequence[Node],
    constants: Arrays,
    packings: Mapping[str, Packing],
    outputs: Sequence[str],
) -> frozenset[int]:
    """Places of the nodes whose weights are multiplied as codes.

    Args:
        nodes: All of a graph, in topological order.
        packings: How constants are codes.
        outputs: Of the graph.
    """
    kernels = _Kernels(constants, packings, nodes, outputs)
    return frozenset(node.index for node in nodes if kernels.take(node))


class _Kernels:
    """What the engine has integer kernels for; see :func:`find_integer_nodes`."""

    def __init__(
        self,
        constants: Arrays,
        packings: Mapping[str, Packing],
        nodes: Sequence[Node],
        outputs: Sequence[str],
    ) -> None:
        self._constants = constants
        self._packings = packings
        self._makers = {name: node for node in nodes for name in node.outputs}
        #: Of each tensor; None for whoever is answered.
        self._readers: dict[str, list[Node | None]] = {name: [None] for name in outputs}
        for node in nodes:
            for name in node.reads:
                self._readers.setdefault(name, []).append(node)

    def take(self, node: Node) -> bool:
        """Whether there is one for a node as it stands in the graph."""
        if node.domain or node.op not in ("Conv", "Gemm", "MatMul"):
            return False
        left, right = node.inputs[:2]
        if left in self._constants:
            # Of a matrix on the left all rows have one scale.
            is_weighted = self._is_narrow(left) and self._packings[left].axis is None
            return node.op == "MatMul" and is_weighted and self._step(right) is not None
        step = self._step(left)
        if step is None or not (right in self._constants and self._is_narrow(right)):
            return False
        if node.op == "Conv" and not self._is_rounded(node.outputs[0]):
            return is_product(node.attrs, self._constants.spec(right).shape)
        steps = step * self._packings[right].scale
        return node.attrs.get("beta", 1.0) == 1.0 and self._adds_steps(node.inputs[2:], steps)

    def _is_narrow(self, name: str) -> bool:
        return name in self._packings and self._packings[name].bits <= _MOST_BITS

    def _step(self, name: str) -> float | None:
        """The scale of a computed tensor's codes of a byte; None where it has none, or several.

        It has them also where its values were moved since.
        """
        maker = self._makers.get(name)
        while maker is not None and maker.op in MOVING and not maker.domain:
            maker = self._makers.get(maker.inputs[0])
        if maker is None or maker.op != "DequantizeLinear" or maker.inputs[0] in self._constants:
            return None
        scale, zero = (*maker.inputs[1:], "")[:2]
        is_byte = not zero or (zero in self._constants and self._constants[zero].itemsize == 1)
        known = self._constants.get(scale)
        if known is None or known.size != 1 or not is_byte:
            return None
        return float(known.reshape(())[()])

    def _adds_steps(self, bias: Sequence[str], steps: Array) -> bool:
        """Whether what is added to sums, if anything, is codes of the sums' own scales."""
        given = [self._packings.get(name) for name in bias if name]
        return all(
            packing is not None
            and packing.bits == SUM_BITS
            and np.allclose(packing.scale, steps, rtol=_SAME, atol=0)
            for packing in given
        )

    def _is_rounded(self, name: str) -> bool:
        """Whether codes are all that is read of a tensor, clipped before or not."""
        reader = self._only_reader(name)
        if reader is None or reader.domain:
            return False
        if reader.op == "QuantizeLinear":
            return True
        behind = self._only_reader(reader.outputs[0])
        if behind is None or behind.op != "QuantizeLinear":
            return False
        return is_implied(reader.proto, behind.proto, self._constants)

    def _only_reader(self, name: str) -> Node | None:
        readers = self._readers.get(name, ())
        return readers[0] if len(readers) == 1 else None
