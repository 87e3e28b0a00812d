"""A network of the cost model as a split problem, and its splits as tables of bits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from math import inf

import numpy as np

from partita.cost import MemoryUse
from partita.errors import PlanError
from partita.graph import Graph
from partita.planners.drafts.draft import Draft
from partita.planners.edgecloud.knapsack import Floats
from partita.planners.edgecloud.network import INPUT_BITS, Network, network_of
from partita.planners.edgecloud.roles import (
    Roles,
    layer_seconds,
    pinned_s,
    placed_draft,
    two_sides,
)
from partita.planners.edgecloud.split_problem import Held, Split, SplitProblem
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen
from partita.quantisation import LayerBits, QuantisationData

#: Bits of what is not quantised.
FLOAT_BITS = 32


class EdgeBits:
    """The widths of an edge, what they lose, and tables of bits for them.

    Args:
        has_floats: Whether layers may also be left as they are.

    Attributes:
        widths: Those that all layers have errors of, the narrowest first, then that of numbers
            that are not quantised.
        input_bits: Of the network's inputs.
        answers: Layers that make an answer, which is left as it is.
    """

    def __init__(
        self, graph: Graph, data: QuantisationData, input_bits: int, *, has_floats: bool
    ) -> None:
        self._graph, self._data = graph, data
        errors = data.errors
        tables = (*errors.weights.values(), *errors.activations.values())
        known = set.intersection(*(set(table) for table in tables)) if tables else set[int]()
        self.widths = (*sorted(known), *([FLOAT_BITS] if has_floats else []))
        answers = (layer.name for layer in graph.layers if set(layer.outputs) & set(graph.outputs))
        self.answers = frozenset(answers)
        self.input_bits = input_bits
        self._levels: list[Evaluator] = []

    def weight_errors(self, layers: Sequence[str]) -> Floats:
        """Errors by layer and width; nothing where there is nothing to quantise."""
        return self._table(self._data.errors.weights, layers)

    def activation_errors(self, layers: Sequence[str]) -> Floats:
        """Errors by layer and width; answers are left as they are."""
        errors = self._data.errors.activations
        return self._table({n: e for n, e in errors.items() if n not in self.answers}, layers)

    def _table(self, errors: dict[str, dict[int, float]], layers: Sequence[str]) -> Floats:
        none = dict.fromkeys(self.widths, 0.0)
        rows = [{**none, **errors.get(name, {})} for name in layers]
        return np.array([[row[width] for width in self.widths] for row in rows])

    def levels(self, evaluator: Evaluator, layers: Sequence[str]) -> list[Evaluator]:
        """The evaluators of the network at each width, one for all layers."""
        if not self._levels:
            uniform = (Split.uniform(len(layers), width) for width in self.widths)
            self._levels = [evaluator.quantised(self.table(layers, split)) for split in uniform]
        return self._levels

    def leaves(self, layers: Sequence[str], split: Split) -> tuple[bool, bool]:
        """Whether a split leaves some weights, and some of what layers make, as they are."""

        def has_floats(known: Collection[str], bits: Sequence[int]) -> bool:
            pairs = zip(layers[: split.cut], bits, strict=True)
            return any(name in known and width == FLOAT_BITS for name, width in pairs)

        errors = self._data.errors
        made = set(errors.activations) - self.answers
        return has_floats(errors.weights, split.weight_bits), has_floats(
            made, split.activation_bits
        )

    def table(self, layers: Sequence[str], split: Split) -> dict[str, LayerBits]:
        """A split as a table of bits.

        Args:
            layers: Names of all layers, in the order that is cut.
        """
        edge = layers[: split.cut]
        errors = self._data.errors
        weights = {
            name: width
            for name, width in zip(edge, split.weight_bits, strict=True)
            if name in errors.weights and width < FLOAT_BITS
        }
        activations = {
            name: width
            for name, width in zip(edge, split.activation_bits, strict=True)
            if name in errors.activations and width < FLOAT_BITS and name not in self.answers
        }
        if self.input_bits < FLOAT_BITS:
            inputs = (name for name in self._graph.inputs if name in errors.activations)
            activations |= dict.fromkeys(inputs, self.input_bits)
        return self._data.bits(self._graph, weights, activations)


def quantised_draft(
    evaluator: Evaluator, roles: Roles, edge: Collection[str], bits: Mapping[str, LayerBits]
) -> tuple[Evaluator, Draft]:
    """The network with so many bits, and layers of it on the edge.

    Args:
        edge: Names of layers; those that round an input are there, too.
    """
    parts = [(roles.edge, edge), (roles.cloud, evaluator.outline.order)]
    return tiered_draft(evaluator, parts, bits)


def tiered_draft(
    evaluator: Evaluator,
    parts: Sequence[tuple[str, Collection[str]]],
    bits: Mapping[str, LayerBits],
) -> tuple[Evaluator, Draft]:
    """The network with so many bits, and its layers on several devices.

    Args:
        parts: Devices, each with names of layers; of several that name a layer the first has it.
            The first of all has those that round an input, too.
    """
    quantised = evaluator.quantised(bits)
    places = {name: device for device, names in reversed(parts) for name in names}
    devices = [places.get(name, parts[0][0]) for name in quantised.outline.order]
    return quantised, placed_draft(quantised, devices)


def choose_uniform(
    evaluator: Evaluator,
    roles: Roles,
    edge: Sequence[str],
    width: int,
    input_bits: int = INPUT_BITS,
) -> Chosen:
    """Layers on the edge, all of one width, the input in bytes; the rest in the cloud as it is.

    Raises:
        PlanError: There are no samples, or no such width.
    """
    data = evaluator.options.quantisation
    if data is None:
        raise PlanError(
            f"Layers cannot have {width} bits without samples, which say what numbers they hold:"
            " PlanOptions has a field 'quantisation' for that."
        )
    bits = EdgeBits(evaluator.graph, data, input_bits, has_floats=True)
    table = bits.table(edge, Split.uniform(len(edge), width))
    return Chosen(quantised_draft(evaluator, roles, edge, table)[1], bits=table)


def make_problem(evaluator: Evaluator, roles: Roles, bits: EdgeBits) -> SplitProblem:
    """The network between the two devices, in the order of its layers.

    Seconds are those of sums: of layers, and of what crosses. What a plan takes in the end the cost
    model says of the network that it quantises.
    """
    sides = two_sides(evaluator, roles)
    layers, widths = evaluator.outline.order, bits.widths
    network = network_of(evaluator.graph, layers, input_bits=bits.input_bits)
    link = evaluator.cluster.link(roles.edge, roles.cloud)
    once_s = np.array([sides.cloud_start_s] * len(layers) + [0.0])
    once_s[1:] += sides.edge_start_s
    return SplitProblem(
        network=network,
        widths=widths,
        edge_s=width_seconds(evaluator, roles.edge, bits, network),
        cloud_s=np.array(sides.cloud_s),
        answer_s=once_s,
        weight_errors=bits.weight_errors(layers),
        activation_errors=bits.activation_errors(layers),
        send_s_per_bit=inf if link is None else 1 / 8 / link.bandwidth_at(0.0),
        send_s=0.0 if link is None else link.per_message_s,
        edge_memory_bits=room_bits(evaluator, roles.edge),
        held=_find_held(evaluator, roles, bits),
    )


def _find_held(evaluator: Evaluator, roles: Roles, bits: EdgeBits) -> Held:
    """What kernels hold, as prices count it: weights as they are loaded, floats between.

    Where what a layer makes is not rounded its weights count as floats, too.
    """
    layers = evaluator.outline.order
    levels = [evaluator, *bits.levels(evaluator, layers)]
    ends = [[0, *(level.outline.order.index(name) + 1 for name in layers)] for level in levels]

    def use(number: int, start: int, stop: int) -> MemoryUse:
        device = roles.cloud if start else roles.edge
        return levels[number].ranges.memory(ends[number][start], ends[number][stop], device)

    @cache
    def beside(start: int, stop: int) -> float:
        ways = (use(number, start, stop) for number in range(2))
        return 8.0 * max(way.pieces + way.arena for way in ways)

    loaded = np.array(
        [
            [use(number, place, place + 1).weights for number in range(len(levels))]
            for place in range(len(layers))
        ]
    )
    is_rounded = np.array(bits.widths) < FLOAT_BITS
    weights = np.where(is_rounded, loaded[:, 1:, None], loaded[:, :1, None])

    return Held(8.0 * weights, beside)


def room_bits(evaluator: Evaluator, device: str) -> float:
    """The bits that a device has for weights and tensors of one fragment."""
    overhead = evaluator.ranges.memory(0, len(evaluator.outline), device).overhead
    return 8 * max(0.0, evaluator.problem.limit_bytes(device) - overhead)


def width_seconds(evaluator: Evaluator, device: str, bits: EdgeBits, network: Network) -> Floats:
    """Seconds by layer, width of its weights and width of what it makes; infinite where pinned.

    The cost model is asked for networks of one width each. Where both widths differ a layer counts
    as one of the width that its bytes have in the mean: exact where memory bounds it.
    """
    graph, layers = evaluator.graph, network.layers
    costs = [level.cost for level in bits.levels(evaluator, layers)]
    levels = [layer_seconds(cost, device, layers) for cost in costs]
    widths = np.array(bits.widths, float)
    seconds = np.empty((len(layers), len(widths), len(widths)))
    for place, name in enumerate(layers):
        layer = graph.layer(name)
        moved = sum(map(graph.size_bytes, (*layer.inputs, *layer.outputs)))
        held = network.weights[place] * FLOAT_BITS // 8
        share = held / max(1, held + moved)
        made = np.full_like(widths, FLOAT_BITS) if name in bits.answers else widths
        mean = share * widths[:, None] + (1 - share) * made[None, :]
        seconds[place] = np.interp(mean, widths, [level[place] for level in levels])
        seconds[place] = pinned_s(evaluator, place, device, 0.0) + seconds[place]
    return seconds
