"""A network between an edge and a cloud: what a cut costs, and the widths of what is before it.

Source: AUTO-SPLIT, equations 1 to 5. The answer's way back counts, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np

from partita.planners.edgecloud.bit_allocation import Bits
from partita.planners.edgecloud.knapsack import Floats
from partita.planners.edgecloud.network import Network, candidate_cuts

#: What rounding may add to sums of errors that lie at their limit.
ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Split:
    """A cut, and the widths of the layers before it.

    Attributes:
        cut: Number of layers before the cloud's.
        weight_bits: Of each of them.
        activation_bits: Of what each of them makes.
        first: How many of them are on a device before the edge; 0 where there is none.
    """

    cut: int
    weight_bits: Bits = ()
    activation_bits: Bits = ()
    first: int = 0

    @classmethod
    def uniform(cls, cut: int, width: int) -> Split:
        """One width for all."""
        return cls(cut, (width,) * cut, (width,) * cut)


#: The whole network in the cloud.
CLOUD_ONLY = Split(0)


@dataclass(frozen=True, eq=False)
class Held:
    """What kernels hold in memory, in bits.

    Attributes:
        weights: Of each layer, by the width of its weights and of what it makes.
        beside: What else there is while a range of layers runs, from and to.
    """

    weights: Floats
    beside: Callable[[int, int], float]


@dataclass(frozen=True)
class SplitProblem:
    """What splits of a network cost.

    Attributes:
        widths: Bits that the edge computes with, the narrowest first.
        edge_s: Seconds on the edge by layer, width of its weights and width of what it makes.
        cloud_s: Seconds of each layer in the cloud.
        answer_s: By cut: seconds of the answer's way back.
        weight_errors: By layer and width.
        activation_errors: By layer and width.
        send_s_per_bit: From the edge to the cloud.
        send_s: Beyond that, where anything is sent.
        edge_memory_bits: Of the edge.
        first: How many layers are on another device, which the edge gets its input from. Their
            seconds, and those of sending to the edge, are among ``edge_s`` and ``answer_s``.
        first_memory_bits: Of that device.
        held: What memory holds; None where it holds weights and tensors packed.
    """

    network: Network
    widths: tuple[int, ...]
    edge_s: Floats
    cloud_s: Floats
    answer_s: Floats
    weight_errors: Floats
    activation_errors: Floats
    send_s_per_bit: float
    send_s: float = 0.0
    edge_memory_bits: float = inf
    first: int = 0
    first_memory_bits: float = inf
    held: Held | None = None

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """The cuts worth looking at (equation 6)."""
        return candidate_cuts(self.network, self.widths[0], memory_bits=self.edge_memory_bits)

    @cached_property
    def rest_s(self) -> Floats:
        """By cut: seconds of the layers after it, of the answer, and of sending anything at all."""
        after = np.concatenate([np.cumsum(self.cloud_s[::-1])[::-1], [0.0]])
        sends = np.array([self.send_s if crossing else 0.0 for crossing in self.network.crossing])
        total: Floats = after + self.answer_s + sends
        return total

    def options(self, bits: Bits) -> list[int]:
        """The places of widths among those of the edge."""
        return [self.widths.index(width) for width in bits]

    def latency_s(self, split: Split) -> float:
        """The seconds from the input to the answer (equation 1)."""
        layers = range(split.cut)
        options = (self.options(split.weight_bits), self.options(split.activation_bits))
        sent = self.network.sent_bits(split.cut, split.activation_bits)
        edge_s = self.edge_s[(layers, *options)].sum() if split.cut else 0.0
        return float(edge_s + sent * self.send_s_per_bit + self.rest_s[split.cut])

    def error(self, split: Split) -> float:
        """The sum of errors (equation 4)."""
        layers = range(split.cut)
        if not split.cut:
            return 0.0
        weights = self.weight_errors[layers, self.options(split.weight_bits)].sum()
        return float(
            weights + self.activation_errors[layers, self.options(split.activation_bits)].sum()
        )

    def rooms(self, cut: int) -> list[tuple[int, int, float]]:
        """The layers before a cut that share a memory, from and to, and its bits.

        That of the device that has the inputs comes first.
        """
        edge = (self.first, cut, self.edge_memory_bits)
        return [(0, self.first, self.first_memory_bits), edge] if self.first else [edge]

    def memory_bits(self, split: Split) -> int:
        """What the device that has the inputs holds (equation 3)."""
        return self.memory_between(split, *self.rooms(split.cut)[0][:2])

    def memory_between(self, split: Split, start: int, stop: int) -> int:
        """What a device with these layers of the split holds."""
        if self.held is None:
            weights, made = split.weight_bits[:stop], split.activation_bits
            return self.network.memory_bits(stop, weights, made, start)
        if start == stop:
            return 0
        sides = (split.weight_bits[start:stop], split.activation_bits[start:stop])
        weights_held = self.held.weights[(range(start, stop), *map(self.options, sides))]
        return int(weights_held.sum() + self.held.beside(start, stop))

    def is_feasible(self, split: Split, most_error: float = inf) -> bool:
        """Whether a split keeps to all memory, and to a bound on the sum of errors."""
        return (
            all(
                self.memory_between(split, start, stop) <= bits
                for start, stop, bits in self.rooms(split.cut)
            )
            and self.error(split) <= most_error * ROUNDING
        )


@dataclass(frozen=True, order=True)
class Candidate:
    """A split with what it costs; the sooner one comes first."""

    latency_s: float
    error: float
    split: Split = field(compare=False)
