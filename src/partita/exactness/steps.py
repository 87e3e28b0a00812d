"""Steps of rounding: how far a divided network may be from the whole one where both round.

A number that lies between two steps of a quantising node falls to either side where sums are
added in another order, and what follows is computed from another number then. In a deep network
that adds up, at most to what rounding itself does to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from partita.graph import Graph
from partita.graph.whole import WholeModel
from partita.regions import Array

#: Bits of codes in graphs that do not say.
_USUAL_BITS = 8


class Steps:
    """For each tensor behind a rounding one, the step of its codes."""

    def __init__(self, graph: Graph) -> None:
        self._exact: dict[str, float] = {}
        self._behind: set[str] = set()
        self._bits = min(
            (packing.bits for name, packing in graph.packings.items() if name in graph.tensors),
            default=_USUAL_BITS,
        )
        for node in graph.nodes:
            if node.op == "QuantizeLinear" and node.inputs[0] not in graph.inputs:
                self._behind.update(node.outputs)
                self._exact[node.outputs[0]] = 1.0
            elif not self._behind.isdisjoint(node.reads):
                self._behind.update(filter(None, node.outputs))
                scale = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
                if node.op == "DequantizeLinear" and scale is not None:
                    self._exact[node.outputs[0]] = float(np.max(scale))

    def of(self, tensor: str, max_magnitude: float) -> float:
        """A tensor's step; 0 where nothing before it is rounded.

        Of a tensor that has no codes itself it is the step that it would have with as few bits as
        any in the network.
        """
        if tensor not in self._behind:
            return 0.0
        steps: int = 2**self._bits - 1
        return self._exact.get(tensor, 2 * max_magnitude / steps)


def rounding_errors(
    graph: Graph, tensors: Iterable[str], inputs: Mapping[str, Array]
) -> dict[str, float]:
    """How far tensors are, at most, from those of the network that a quantised one was made of.

    Empty for one that was not made of another.
    """
    base = graph.base
    names = set() if base is None else {name for name in tensors if name in base.tensors}
    if base is None or not names:
        return {}
    rounded, exact = (WholeModel(which, names).run(inputs) for which in (graph, base))
    return {name: float(np.abs(rounded[name] - exact[name]).max(initial=0.0)) for name in names}
