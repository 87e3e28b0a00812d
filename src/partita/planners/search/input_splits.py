"""Layers divided over their inputs, and pairs that one sum joins: the last step of a search.

It begins with what is found without them, so that a plan never gets worse; and only with layers
whose computing could save more than their sums take to travel, so that it costs nothing where links
are slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import inf

from partita.planners.drafts.channel_pairs import ChannelPair, channel_pairs
from partita.planners.drafts.draft import Draft, DraftStage, whole_stages
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.search.local_search import LocalSearch
from partita.planners.search.moves import Moves
from partita.planners.simple.rows import device_speeds

#: Pairs that are tried, those first that could save most. Not tuned: ResNet-50 has fifty.
_MOST_PAIRS = 8
#: Drafts that are tried to move the shares after pairs were put in.
_BALANCING = 60
#: Times that all pairs are tried in turn.
_ROUNDS = 2
_SPATIAL = ("rows", "tiles")


class InputSplits:
    """Puts pairs into drafts where that helps.

    Args:
        evaluator: Of the devices that may take part.
        search: Moves shares.
        moves: Its moves.
    """

    def __init__(self, evaluator: Evaluator, search: LocalSearch, moves: Moves) -> None:
        self._evaluator = evaluator
        self._outline = evaluator.outline
        self._search = search
        self._moves = moves
        speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
        self._ranked = sorted(evaluator.devices, key=lambda device: -speeds[device])
        self._speeds = speeds
        #: Delay and rate of the links between the devices, each kind once.
        self._links = {
            (link.latency_s + link.per_message_s, link.bandwidth_bytes_per_s)
            for link in evaluator.cluster.links
            if link.source in speeds and link.target in speeds
        }
        #: What could be saved, and the seconds at most; those first that could save most.
        self._gains_s = self._promising() if self._may_help else {}
        self._pairs = list(self._gains_s)[:_MOST_PAIRS]

    @property
    def _may_help(self) -> bool:
        options = self._evaluator.options
        is_timed = options.objective in ("latency", "throughput")
        return is_timed and len(self._ranked) > 1 and not self._outline.pins

    def improve(self, draft: Draft) -> Iterator[Draft]:
        """Yield drafts made from one, each better than those before; and those of pairs alone."""
        if not self._pairs or self._evaluator.budget.is_spent:
            return
        for start in (draft, *self._chains(draft)):
            for _ in range(_ROUNDS):
                better = self._with_pairs(start)
                if better == start:
                    break
                (start,) = self._search.successive_halving([better], _BALANCING, 1)
            if start != draft:
                yield start

    def _with_pairs(self, draft: Draft) -> Draft:
        """The draft with each pair in turn, where that is better."""
        evaluator = self._evaluator
        for pair in self._pairs:
            for other in self._placed(draft, pair):
                if evaluator.budget.is_spent:
                    return draft
                limit = evaluator.score(draft)
                rank = evaluator.trial(other, limit[0])
                if rank is not None and rank.score < limit:
                    draft = other
        return draft

    def _placed(self, draft: Draft, pair: ChannelPair) -> list[Draft]:
        """The draft with a pair on all devices or the fastest two, added by all or by one."""
        after = next((stage for stage in draft if stage.stop > pair.last + 1), None)
        home = (after.devices if after is not None else (self._evaluator.requester,))[0]
        groups = {len(self._ranked), min(2, len(self._ranked))}
        placed = []
        for count, is_alone in product(sorted(groups), (True, False)):
            crew = self._crew(count)
            merge = (home if home in self._ranked else crew[0],) if is_alone else crew
            placed.append(self._put(draft, pair, pair.stages(crew, self._shares(crew), merge)))
        return [other for other in placed if other]

    def _crew(self, count: int) -> tuple[str, ...]:
        chosen = self._ranked[:count]
        return tuple(device for device in self._evaluator.devices if device in chosen)

    def _shares(self, crew: Sequence[str]) -> list[float]:
        return [self._speeds[device] for device in crew]

    def _put(self, draft: Draft, pair: ChannelPair, stages: Draft) -> Draft:
        """The draft with other stages for a pair's layers.

        Empty where they cannot be cut out, or are divided in space: what travels then is the halo
        alone, less than copies of inputs or partial sums.
        """
        start, stop = pair.start, pair.last + 1
        result: list[DraftStage] = []
        for stage in draft:
            if stage.stop <= start or stage.start >= stop:
                result.append(stage)
                continue
            if stage.axis in _SPATIAL:
                return ()
            for low, high in ((stage.start, start), (stop, stage.stop)):
                if low < high:
                    rest = self._moves.resized(stage, low, high)
                    if not rest:
                        return ()
                    result += rest
                if low <= stage.start and stage.start <= start:
                    result += stages
        return tuple(result)

    def _chains(self, draft: Draft) -> Iterator[Draft]:
        """Yield drafts of pairs alone, where they are most of the work: transformers.

        None where the fastest device, less all that the pairs save at most, is slower than a draft.
        """
        outline, total = self._outline, len(self._outline)
        chosen: list[ChannelPair] = []
        for pair in self._gains_s:
            if all(pair.last < one.start or one.last < pair.start for one in chosen):
                chosen.append(pair)
        chosen.sort(key=lambda pair: pair.start)
        fastest, ranges = self._ranked[0], self._evaluator.ranges
        alone_s = ranges.work_s(0, total, fastest)
        covered_s = sum(ranges.work_s(p.start, p.last + 1, fastest) for p in chosen)
        least_s = alone_s - sum(self._gains_s[pair] for pair in chosen)
        if covered_s < 0.5 * alone_s or self._is_above(least_s, draft):
            return
        for home in dict.fromkeys((fastest, self._evaluator.requester)):
            if home not in self._ranked:
                continue
            crew = self._crew(len(self._ranked))
            stages: list[DraftStage] = []
            for number, pair in enumerate(chosen):
                reached = stages[-1].stop if stages else 0
                if reached < pair.start:
                    stages.append(DraftStage(reached, pair.start, "everywhere", crew))
                merge = crew if number + 1 < len(chosen) else (home,)
                stages += pair.stages(crew, self._shares(crew), merge)
            yield (*stages, *whole_stages(outline, stages[-1].stop, total, home))

    def _is_above(self, latency_s: float, draft: Draft) -> bool:
        """Whether all plans of at least a latency are worse than a draft."""
        options = self._evaluator.options
        requests = options.in_flight if options.objective == "throughput" else 1
        return latency_s / requests >= self._evaluator.score(draft)[0]

    def _promising(self) -> dict[ChannelPair, float]:
        """The pairs, and sums alone, that could save time, with how much at most."""
        outline = self._outline
        pairs = channel_pairs(outline)
        alone = [
            replace(pair, start=pair.last, groups=outline.input_channels(pair.last, pair.last + 1))
            for pair in pairs
        ]
        axes = self._evaluator.options.axes
        allowed = alone if axes and "output_channels" not in axes else (*pairs, *alone)
        gains = {pair: self._gain_s(pair) for pair in allowed}
        ranked = sorted(gains, key=lambda pair: (-gains[pair], pair.last, pair.start))
        return {pair: gains[pair] for pair in ranked if gains[pair] > 0}

    def _gain_s(self, pair: ChannelPair) -> float:
        """What dividing a pair saves at most: computing, less the way of one partial result."""
        evaluator, outline = self._evaluator, self._outline
        share = 1 - self._speeds[self._ranked[0]] / sum(self._speeds.values())
        saved_s = share * evaluator.ranges.work_s(pair.start, pair.last + 1, self._ranked[0])
        layer = outline.graph.layer(outline.order[pair.last])
        size = outline.size_bytes(layer.outputs[0])
        return saved_s - min((delay_s + size / rate for delay_s, rate in self._links), default=inf)
