"""What a network costs on the paper's two arrays, by the widths of what the edge computes.

Seconds are those of the cost model's systolic arrays (section 5.1), sums those of equation 1: the
answer's way back does not count, and neither do delays, of which the paper gives none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from partita.cluster import Array, find_entry
from partita.cost.amount import Amount, Amounts, Stored
from partita.cost.systolic import layer_s
from partita.errors import ClusterError
from partita.graph import Graph
from partita.planners.edgecloud.min_cut import SharedTensor, TwoSides
from partita.planners.edgecloud.network import Network, network_of
from partita.planners.edgecloud.split_problem import Split
from partita.reproduce.autosplit.setting import CLOUD, EDGE, FLOAT_BITS, INPUT_BITS, Setting

Floats = NDArray[np.float64]


@lru_cache(maxsize=8)
def find_array(kind: str, wide_steps: int) -> Array:
    """An array of the catalogue whose 16-bit multiplications take so many steps.

    Raises:
        ClusterError: The kind is no array.
    """
    array = find_entry(kind).array
    if array is None:
        raise ClusterError(f"Device kind '{kind}' is no systolic array.", subject=kind)
    return msgspec.structs.replace(array, wide_steps=wide_steps)


@dataclass(frozen=True)
class Parts:
    """The seconds of one answer.

    Attributes:
        edge_s: Of the layers on the edge.
        send_s: Of what crosses.
        cloud_s: Of the layers in the cloud.
    """

    edge_s: float
    send_s: float
    cloud_s: float

    @property
    def latency_s(self) -> float:
        """All of them."""
        return self.edge_s + self.send_s + self.cloud_s


class NetworkCosts:
    """A network between the two arrays.

    Args:
        order: Names of all layers, in the order that is cut.
    """

    def __init__(self, graph: Graph, order: Sequence[str], setting: Setting) -> None:
        self.graph, self.setting = graph, setting
        whole = network_of(graph, order, input_bits=INPUT_BITS)
        self.network = _sending_one(whole) if setting.sends_one else whole
        self._arrays = {kind: find_array(kind, setting.wide_steps) for kind in (EDGE, CLOUD)}
        amounts = Amounts(graph).layers
        self._amounts = [amounts[name] for name in order]
        tensors = [*graph.inputs, *(t for name in order for t in graph.layer(name).outputs)]
        numbers = {name: number for number, name in enumerate(tensors)}
        self._reads = [[numbers[t] for t in graph.layer(name).inputs] for name in order]
        self._makes = [[numbers[t] for t in graph.layer(name).outputs] for name in order]
        self._answers = {numbers[name] for name in graph.outputs}
        floats = [FLOAT_BITS] * len(order)
        self.cloud_s = np.array(
            [self._layer_s(CLOUD, n, floats, floats) for n in range(len(order))]
        )

    @property
    def s_per_bit(self) -> float:
        """Seconds that a bit takes on the uplink."""
        return 1e-6 / self.setting.uplink_mbit_s

    def edge_s(self, widths: Sequence[int]) -> Floats:
        """Seconds on the edge by layer, width of its weights and width of its activations.

        What a layer reads counts as wide as what it makes, as in equation 1.
        """
        count = len(self._amounts)
        return np.array(
            [
                [
                    [self._layer_s(EDGE, n, [held] * count, [made] * count) for made in widths]
                    for held in widths
                ]
                for n in range(count)
            ]
        )

    def parts(self, split: Split) -> Parts:
        """The seconds of a split, each tensor as wide as its maker has it."""
        cut = split.cut
        edge_s = sum(
            self._layer_s(EDGE, n, split.weight_bits, split.activation_bits) for n in range(cut)
        )
        sent = self.network.sent_bits(cut, split.activation_bits)
        return Parts(edge_s, sent * self.s_per_bit, float(self.cloud_s[cut:].sum()))

    def sides(self) -> TwoSides:
        """What layers and tensors cost where nothing but the input is quantised."""
        count, network = len(self._amounts), self.network
        floats = [FLOAT_BITS] * count
        readers: dict[int, list[int]] = {}
        for place, tensors in enumerate(self._reads):
            for tensor in tensors:
                readers.setdefault(tensor, []).append(place)
        makers = {tensor: place for place, made in enumerate(self._makes) for tensor in made}
        return TwoSides(
            [self._layer_s(EDGE, n, floats, floats) for n in range(count)],
            [float(seconds) for seconds in self.cloud_s],
            [
                SharedTensor(
                    makers.get(tensor, -1),
                    tuple(places),
                    network.sizes[tensor] * self._width(tensor, floats) * self.s_per_bit,
                )
                for tensor, places in readers.items()
            ],
        )

    def set_parts(self, edge: Collection[int]) -> Parts:
        """The seconds of any set of layers on the edge, nothing quantised."""
        sides = self.sides()
        edge_s = sum(sides.edge_s[n] for n in edge)
        cloud_s = sum(s for n, s in enumerate(sides.cloud_s) if n not in edge)
        return Parts(edge_s, sides.seconds(edge) - edge_s - cloud_s, cloud_s)

    def set_bytes(self, edge: Collection[int], width: int) -> float:
        """Weights and the largest working set of layers on the edge (equation 3)."""
        network = self.network
        here = {t for n in edge for t in self._makes[n]} | set(range(len(self.graph.inputs)))
        widths = [width] * len(network.layers)
        sets = (
            sum(network.sizes[t] * self._width(t, widths) for t in network.working[n] if t in here)
            for n in edge
        )
        weights = sum(network.weights[n] for n in edge) * width
        return (weights + max(sets, default=0)) / 8

    def table_bytes(self, edge: Collection[int], split: Split) -> float:
        """Weights and the largest tensor made, which is what Table 2 counts.

        Args:
            split: Says the widths.
        """
        network = self.network
        weights = sum(network.weights[n] * split.weight_bits[n] for n in edge)
        made = (
            network.sizes[t] * self._width(t, split.activation_bits)
            for n in edge
            for t in self._makes[n]
        )
        return (weights + max(made, default=0)) / 8

    def _width(self, tensor: int, activation_bits: Sequence[int]) -> int:
        maker = self.network.makers[tensor]
        return INPUT_BITS if maker < 0 else activation_bits[maker]

    def _layer_s(
        self, kind: str, place: int, weight_bits: Sequence[int], activation_bits: Sequence[int]
    ) -> float:
        """The seconds of a layer on an array."""
        amount, held = self._amounts[place], self.network.weights[place]
        reads = self._stored(self._reads[place], activation_bits)
        other = sum(elements for elements, _ in amount.weights) - held
        operands = max((weight_bits[place] if held else 0, *(bits for _, bits in reads)))
        sized: Amount = replace(
            amount,
            weights=((held, weight_bits[place]), (other, FLOAT_BITS)),
            inputs=reads,
            outputs=self._stored(self._makes[place], activation_bits),
            operand_bits=operands,
        )
        rows = np.array(float(amount.rows))
        return float(layer_s(self._arrays[kind], sized, rows, FLOAT_BITS))

    def _stored(self, tensors: Sequence[int], activation_bits: Sequence[int]) -> Stored:
        return tuple(
            (
                self.network.sizes[t],
                FLOAT_BITS if t in self._answers else self._width(t, activation_bits),
            )
            for t in tensors
        )


def _sending_one(network: Network) -> Network:
    """The network whose cuts send what the last layer before them makes, and nothing else."""
    return replace(network, crossing=tuple(tensors[-1:] for tensors in network.crossing))
