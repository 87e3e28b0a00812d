"""What planners that choose widths know of a network's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from partita.graph import Graph
from partita.quantisation.choose import USUAL, CodeOptions, choose_bits
from partita.quantisation.errors import ErrorTable
from partita.quantisation.ranges import Ranges
from partita.regions import LayerBits


@dataclass(frozen=True)
class QuantisationData:
    """What samples say, found once for a network.

    Attributes:
        errors: What each layer loses by each width.
        ranges: What its tensors are.
        options: How numbers become codes, as for the errors.
    """

    errors: ErrorTable
    ranges: Ranges
    options: CodeOptions = USUAL

    def error_of(self, graph: Graph, bits: Mapping[str, LayerBits]) -> float:
        """The sum of what layers lose by a table of bits; rounding inputs does not count."""
        layers = {layer.name for layer in graph.layers}
        return sum(
            table[name][width]
            for name, entry in bits.items()
            for table, width in (
                (self.errors.weights, entry.weight),
                (self.errors.activations, entry.activation),
            )
            if width is not None and name in layers
        )

    def bits(
        self, graph: Graph, weights: Mapping[str, int], activations: Mapping[str, int]
    ) -> dict[str, LayerBits]:
        """The table of bits that gives layers these widths; see :func:`choose_bits`."""
        return choose_bits(graph, self.ranges, weights, activations, self.options)
