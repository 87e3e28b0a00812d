"""AUTO-SPLIT and what it is compared with, on one network and setting."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from partita.planners.edgecloud.min_cut import least_cut
from partita.planners.edgecloud.split_problem import CLOUD_ONLY, Split, SplitProblem
from partita.planners.edgecloud.trade_offs import list_candidates
from partita.reproduce.autosplit.costs import NetworkCosts
from partita.reproduce.autosplit.setting import FLOAT_BITS, LEAST_DB, WIDTHS, Kind, Setting
from partita.reproduce.autosplit.subject import Noise, Subject

#: Of what is not rounded.
NO_NOISE = Noise(None, None)


class Answer(msgspec.Struct, frozen=True):
    """Where a method computes what, and what that costs.

    Attributes:
        index: The paper's number of the last layer with weights on the edge; -1 for none.
        edge_s: Seconds of the layers on the edge; ``send_s`` of what crosses, ``cloud_s`` beyond.
        edge_bytes: Weights and the largest working set on the edge.
        table_bytes: Weights and the largest tensor, which Table 2 counts.
        signal_db: Signal-to-noise ratio of the outputs; None where nothing is rounded.
        varying_db: The same of what differs from picture to picture.
        sent_bits: Mean bits of what crosses; 0 where nothing does.
    """

    kind: Kind
    index: int
    edge_s: float
    send_s: float
    cloud_s: float
    edge_bytes: float
    table_bytes: float
    signal_db: float | None = None
    varying_db: float | None = None
    sent_bits: float = 0.0

    @property
    def latency_s(self) -> float:
        """From the input to the answer."""
        return self.edge_s + self.send_s + self.cloud_s


#: Says whether an answer is accurate enough.
Judge = Callable[[Answer], bool]


def is_clear(answer: Answer) -> bool:
    """Whether the outputs stand so far above what rounding changes as asked."""
    return answer.signal_db is None or answer.signal_db >= LEAST_DB


def is_told_apart(answer: Answer) -> bool:
    """The same of what differs from picture to picture."""
    return answer.varying_db is None or answer.varying_db >= LEAST_DB


@dataclass(frozen=True)
class Case:
    """One network in one setting."""

    subject: Subject
    setting: Setting

    @cached_property
    def costs(self) -> NetworkCosts:
        """Of the optimised network."""
        return NetworkCosts(self.subject.graph, self.subject.order, self.setting)

    @cached_property
    def problem(self) -> SplitProblem:
        """Cuts and widths, what each layer's cost."""
        bits, costs, order = self.subject.bits, self.costs, self.subject.order
        widths = (*WIDTHS, FLOAT_BITS)
        return SplitProblem(
            network=costs.network,
            widths=widths,
            edge_s=costs.edge_s(widths),
            cloud_s=costs.cloud_s,
            answer_s=np.zeros(len(order) + 1),
            weight_errors=bits.weight_errors(order),
            activation_errors=bits.activation_errors(order),
            send_s_per_bit=costs.s_per_bit,
            edge_memory_bits=8 * self.setting.edge_bytes,
        )

    def cloud_only(self) -> Answer:
        """All in the cloud."""
        return self.answer(CLOUD_ONLY)

    def edge_only(self, width: int) -> Answer | None:
        """All on the edge, of one width; None where it does not fit."""
        split = Split.uniform(len(self.subject.order), width)
        return self.judged(split) if self._fits(split) else None

    def neurosurgeon(self) -> Answer:
        """The best place of the order where nothing is rounded, of those that fit."""
        seconds = self.costs.sides().prefix_s()
        places = sorted(range(len(seconds)), key=lambda stop: (seconds[stop], stop))
        splits = (Split.uniform(stop, FLOAT_BITS) for stop in places)
        return self.answer(next(split for split in splits if self._fits(split)))

    def qdmp(self) -> Answer:
        """The least cut of the optimised network; if too large, the best place of the order."""
        edge = least_cut(self.costs.sides()) or frozenset()
        if self.costs.set_bytes(edge, FLOAT_BITS) > self.setting.edge_bytes:
            return self.neurosurgeon()
        return self._set_answer(edge)

    def plain_neurosurgeon_s(self) -> float:
        """The seconds of the best place of the network as it is written, each node by itself."""
        return min(self._unoptimised.sides().prefix_s())

    def dads_s(self) -> float:
        """The seconds of the least cut of that network."""
        sides = self._unoptimised.sides()
        return sides.seconds(least_cut(sides) or frozenset())

    @cached_property
    def _unoptimised(self) -> NetworkCosts:
        graph = self.subject.unoptimised
        return NetworkCosts(graph, [layer.name for layer in graph.layers], self.setting)

    @cached_property
    def candidates(self) -> list[Split]:
        """Splits of less and less error, the soonest first; widths are the Lagrangian's."""
        listed = list_candidates(self.problem, exact=False, as_printed=False)
        return sorted((one.split for one in listed), key=self._latency_s)

    def auto_split(self, judge: Judge) -> Answer:
        """The soonest split that a judge accepts, if it beats all that is exact.

        Less error mostly means more accuracy: halving the list finds the first that is accepted.
        Those of one width, whose sums of errors are no measure beside others, are judged apart, and
        so are those whose width of what is sent is one of its own.
        """
        best = self.neurosurgeon()
        mixed = [split for split in self.candidates if len(_widths(split)) > 1]
        mixed = [split for split in mixed if self._latency_s(split) < best.latency_s]
        place = bisect_left(mixed, True, key=lambda split: judge(self.judged(split)))
        alone = [split for split in self.candidates if len(_widths(split)) < 2]
        for split in (*mixed[place : place + 1], *alone, *self._sent_apart()):
            if self._latency_s(split) < best.latency_s and judge(answer := self.judged(split)):
                best = answer
        return best

    def _sent_apart(self) -> list[Split]:
        """For each width of all layers, and of what is sent, the soonest cut; by latency.

        Algorithm 1 gives what is sent as many bits as memory allows: figure 7 has it apart.
        """
        found = []
        for width in (*WIDTHS, FLOAT_BITS):
            for sent in (narrow for narrow in WIDTHS if narrow < width):
                splits = [self._sending(cut, width, sent) for cut in self.problem.cuts if cut]
                splits = [split for split in splits if self._fits(split)]
                found += sorted(splits, key=self.problem.latency_s)[:1]
        return sorted(found, key=self._latency_s)

    def _sending(self, cut: int, width: int, sent: int) -> Split:
        network = self.costs.network
        makers = {network.makers[tensor] for tensor in network.crossing[cut]}
        made = tuple(sent if layer in makers else width for layer in range(cut))
        return Split(cut, (width,) * cut, made)

    def _latency_s(self, split: Split) -> float:
        return self.costs.parts(split).latency_s

    def judged(self, split: Split) -> Answer:
        """A split with what its widths leave of the outputs."""
        if _widths(split) <= {FLOAT_BITS}:
            return self.answer(split)
        return self.answer(split, self.subject.noise_of(split))

    def answer(self, split: Split, noise: Noise = NO_NOISE) -> Answer:
        """A split with its seconds and bytes."""
        network, costs = self.costs.network, self.costs
        parts = costs.parts(split)
        crossing = network.crossing[split.cut]
        sent = sum(network.sizes[tensor] for tensor in crossing)
        bits = network.sent_bits(split.cut, split.activation_bits)
        return Answer(
            kind=_kind(split.cut, is_cut=bool(crossing)),
            index=self.subject.index(split.cut),
            edge_s=parts.edge_s,
            send_s=parts.send_s,
            cloud_s=parts.cloud_s,
            edge_bytes=self._memory_bytes(split),
            table_bytes=costs.table_bytes(range(split.cut), split),
            signal_db=noise.signal_db,
            varying_db=noise.varying_db,
            sent_bits=bits / sent if sent else 0.0,
        )

    def _set_answer(self, edge: Collection[int]) -> Answer:
        costs, count = self.costs, len(self.subject.order)
        parts = costs.set_parts(edge)
        return Answer(
            kind=_kind(len(edge), is_cut=len(edge) < count),
            index=self.subject.index(max(edge, default=-1) + 1),
            edge_s=parts.edge_s,
            send_s=parts.send_s,
            cloud_s=parts.cloud_s,
            edge_bytes=costs.set_bytes(edge, FLOAT_BITS),
            table_bytes=costs.table_bytes(edge, Split.uniform(count, FLOAT_BITS)),
        )

    def _fits(self, split: Split) -> bool:
        return self._memory_bytes(split) <= self.setting.edge_bytes

    def _memory_bytes(self, split: Split) -> float:
        bits = self.costs.network.memory_bits(split.cut, split.weight_bits, split.activation_bits)
        return bits / 8 if split.cut else 0.0


def _widths(split: Split) -> set[int]:
    return {*split.weight_bits, *split.activation_bits}


def _kind(layers: int, *, is_cut: bool) -> Kind:
    if not layers:
        return "cloud"
    return "split" if is_cut else "edge"
