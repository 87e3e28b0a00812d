"""Bits that a network's weights and tensors take, and the cuts that are worth looking at.

Source: AUTO-SPLIT, equation 6 and section 3.2. Tensors that cross a cut count once each. What is in
memory while a layer runs is counted for any order: its inputs, its outputs, and whatever else a
later layer, also one in the cloud, still reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from partita.graph import Graph, Layer
from partita.graph.liveness import live_tensors, working_sets
from partita.program import type_bytes
from partita.quantisation.bits import find_weights, is_moving

#: Bits of a network's input: pictures are made of bytes.
INPUT_BITS = 8


@dataclass(frozen=True)
class Network:
    """How many elements a network's weights and tensors have, its layers in one order.

    Attributes:
        layers: Names, in a topological order.
        weights: Elements of each layer's weights; biases do not count.
        makers: Of each tensor the position of the layer whose width it has: that which makes it,
            or for layers that only move values that which made these; -1 for inputs.
        sizes: Elements of each tensor; one that holds no floats counts as so many of an input's.
        crossing: By cut, the number of layers before it: the tensors that layers after it read.
        working: By layer: the tensors in memory while it runs.
        input_bits: Of each element of an input.
    """

    layers: tuple[str, ...]
    weights: tuple[int, ...]
    makers: tuple[int, ...]
    sizes: tuple[int, ...]
    crossing: tuple[tuple[int, ...], ...]
    working: tuple[tuple[int, ...], ...]
    input_bits: int = INPUT_BITS

    def sent_bits(self, cut: int, activation_bits: Sequence[int]) -> int:
        """What crosses a cut, each tensor once.

        Args:
            activation_bits: Of each layer before the cut.
        """
        return self._bits(self.crossing[cut], activation_bits)

    def memory_bits(
        self, cut: int, weight_bits: Sequence[int], activation_bits: Sequence[int], first: int = 0
    ) -> int:
        """The weights of the layers before a cut, and their largest working set (equation 3).

        Args:
            first: Of these layers, the first that counts.
        """
        weights = list(zip(self.weights[:cut], weight_bits, strict=True))[first:]
        sets = (self._bits(tensors, activation_bits) for tensors in self.working[first:cut])
        return sum(n * bits for n, bits in weights) + max(sets, default=0)

    def _bits(self, tensors: Sequence[int], activation_bits: Sequence[int]) -> int:
        total = 0
        for tensor in tensors:
            maker = self.makers[tensor]
            width = self.input_bits if maker < 0 else activation_bits[maker]
            total += self.sizes[tensor] * width
        return total

    def working_elements(
        self, cut: int, first: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each different working set before a cut: elements by the layer that made them, and bits.

        Args:
            first: Of the layers before the cut, the first whose working set counts.

        Returns:
            Elements, sets by layers before the cut, and the bits of inputs in each set. Sets that
            lie within another one are left out.
        """
        sets = {frozenset(tensors) for tensors in self.working[first:cut]}
        largest = [one for one in sets if not any(one < other for other in sets)]
        elements = np.zeros((len(largest), cut), np.int64)
        fixed = np.zeros(len(largest), np.int64)
        for row, tensors in enumerate(sorted(largest, key=sorted)):
            for tensor in tensors:
                maker, size = self.makers[tensor], self.sizes[tensor]
                if maker < 0:
                    fixed[row] += size * self.input_bits
                else:
                    elements[row, maker] += size
        return elements, fixed


def network_of(
    graph: Graph, order: Sequence[str] | None = None, *, input_bits: int = INPUT_BITS
) -> Network:
    """The elements of a graph's weights and tensors.

    What goes to the edge as an answer does not cross a cut: inputs and answers are there.

    Args:
        order: Names of all layers in a topological order; the graph's own if None.
    """
    names = tuple(order or (layer.name for layer in graph.layers))
    layers = [graph.layer(name) for name in names]
    live = live_tensors(layers, graph.inputs, graph.outputs)
    tensors = [*graph.inputs, *(name for layer in layers for name in layer.outputs)]
    numbers = {name: number for number, name in enumerate(tensors)}
    made = dict.fromkeys(graph.inputs, -1)
    for place, layer in enumerate(layers):
        maker = made[layer.inputs[0]] if is_moving(graph, layer) else place
        made |= {name: maker if _is_rounded(graph, name) else -1 for name in layer.outputs}
    last = {name: place for place, layer in enumerate(layers) for name in layer.inputs}
    return Network(
        layers=names,
        weights=tuple(_weight_elements(graph, layer) for layer in layers),
        makers=tuple(made[name] for name in tensors),
        sizes=tuple(_elements(graph, name, input_bits) for name in tensors),
        crossing=tuple(
            tuple(numbers[name] for name in here if last.get(name, -1) >= cut)
            for cut, here in enumerate(live)
        ),
        working=tuple(
            tuple(numbers[name] for name in names) for names in working_sets(layers, live)
        ),
        input_bits=input_bits,
    )


def _weight_elements(graph: Graph, layer: Layer) -> int:
    found = find_weights(graph, layer)
    return 0 if found is None else graph.constants.spec(found.name).size


def _is_rounded(graph: Graph, tensor: str) -> bool:
    """Whether a tensor has the bits of the layer that makes it; indices and pixels do not."""
    return graph.tensors[tensor].dtype.startswith("float")


def _elements(graph: Graph, tensor: str, input_bits: int) -> int:
    """The elements of a tensor; 0 where its shape depends on the data."""
    spec = graph.tensors[tensor]
    count = prod(spec.shape) if min(spec.shape, default=0) >= 0 else 0
    if tensor in graph.inputs or _is_rounded(graph, tensor):
        return count
    return -(-count * 8 * type_bytes(spec.dtype) // input_bits)


def candidate_cuts(
    network: Network, least_bits: int, *, memory_bits: float = inf
) -> tuple[int, ...]:
    """The cuts that no more bits cross than the input has, and before which all fits in memory.

    Everything is counted at the least width. 0, all in the cloud, is always among them; the last
    is all on the edge, where nothing crosses.

    Args:
        least_bits: The narrowest width of the edge.
        memory_bits: Of the edge.

    Source: AUTO-SPLIT, equation 6, with working sets in place of single tensors.
    """
    narrow = [least_bits] * len(network.layers)
    most_sent = network.sent_bits(0, narrow)
    return tuple(
        cut
        for cut in range(len(network.layers) + 1)
        if network.sent_bits(cut, narrow) <= most_sent
        and (not cut or network.memory_bits(cut, narrow[:cut], narrow) <= memory_bits)
    )
