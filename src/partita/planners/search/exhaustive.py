"""All plans of a small network: what other planners are measured by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise, product
from math import comb

from partita.errors import InfeasibleError
from partita.planners.bounds.minimum_costs import MinimumCosts
from partita.planners.drafts.draft import Draft, DraftStage, whole_stages
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.objective import IMPOSSIBLE, Score
from partita.planners.registry import Chosen, register
from partita.planners.simple.single import single_drafts

#: More plans than this are refused.
MOST_PLANS = 1_000_000
#: Channels are divided in so many parts at most.
_CHANNEL_PARTS = 4


@register("exhaustive", cost="exponential")
def plan_exhaustive(evaluator: Evaluator) -> Chosen:
    """The best of all plans of a small network: every cut, axis, device and row boundary.

    Devices take rows from top to bottom in the cluster's order. Channels, those of inputs too, are
    divided in quarters. Plans that cannot beat the best so far are passed over.

    Raises:
        InfeasibleError: There are too many plans; the message says how many.
    """
    space = Space(evaluator, sums=True)
    count = space.count(MOST_PLANS)
    if count > MOST_PLANS:
        raise InfeasibleError(
            f"Planner 'exhaustive' would look at {count} plans or more, allowed are {MOST_PLANS}."
            " Use 'best', fewer devices, or a smaller input.",
            subject="exhaustive",
        )
    return Chosen(_Walk(evaluator, space).best(), "optimal")


class Space:
    """The stages that a draft may be made of.

    Args:
        sums: Whether inputs of single layers are divided, too.
    """

    def __init__(self, evaluator: Evaluator, *, sums: bool = False) -> None:
        self._sums = sums
        self._outline = evaluator.outline
        self._devices = evaluator.devices
        self._known: dict[tuple[int, int], list[DraftStage]] = {}

    def count(self, limit: int) -> int:
        """The number of drafts, without making them; counting ends above ``limit``."""
        total = len(self._outline)
        ways = [0] * total + [1]
        for start in range(total - 1, -1, -1):
            ways[start] = sum(
                self._count(start, stop) * ways[stop] for stop in range(start + 1, total + 1)
            )
            if ways[start] > limit:  # every longer rest has at least as many
                return ways[start]
        return ways[0]

    def _count(self, start: int, stop: int) -> int:
        devices = len(self._devices)
        rows = self._rows(start, stop)
        parts = self._channel_parts(start, stop)
        extra = sum(comb(n + devices - 1, devices - 1) - devices for n in (rows, parts) if n)
        sums = self._input_parts(start, stop)
        ways = comb(sums + devices - 1, devices - 1) - devices if sums else 0
        return devices + extra + 2 * devices + ways * (devices + 1)

    def _rows(self, start: int, stop: int) -> int:
        outline = self._outline
        return outline.rows(start, stop) if outline.is_divisible(start, stop) else 0

    def _channels(self, start: int, stop: int) -> int:
        pinned = any(p in self._outline.pins for p in range(start, stop))
        return 0 if pinned else self._outline.channels(start, stop)

    def _channel_parts(self, start: int, stop: int) -> int:
        return min(_CHANNEL_PARTS, self._channels(start, stop))

    def _input_parts(self, start: int, stop: int) -> int:
        return min(_CHANNEL_PARTS, self._outline.input_channels(start, stop)) if self._sums else 0

    def stages(self, start: int, stop: int) -> list[DraftStage]:
        """All ways to run a range as one stage."""
        found = self._known.get((start, stop))
        if found is None:
            found = self._known[start, stop] = list(self._stages(start, stop))
        return found

    def few_stages(self, start: int, stop: int, most: int) -> list[DraftStage] | None:
        """All ways to run a range as one stage; None where they are more than ``most``."""
        return self.stages(start, stop) if self._count(start, stop) <= most else None

    def _stages(self, start: int, stop: int) -> Iterator[DraftStage]:
        outline, devices = self._outline, self._devices
        for device in devices:
            whole = whole_stages(outline, start, stop, device)
            if len(whole) == 1:
                yield whole[0]
        for axis, height, parts in (
            ("rows", self._rows(start, stop), self._rows(start, stop)),
            ("output_channels", self._channels(start, stop), self._channel_parts(start, stop)),
        ):
            for cuts in divisions(parts, len(devices)):
                yield self._divided(start, stop, axis, [cut * height // parts for cut in cuts])
        inputs, parts = outline.input_channels(start, stop), self._input_parts(start, stop)
        for cuts in divisions(parts, len(devices)):
            ends = [cut * inputs // parts for cut in cuts]
            divided = self._divided(start, stop, "input_channels", ends)
            for merge in (devices, *((device,) for device in devices)):
                yield replace(divided, merge=merge)
        if len(devices) > 1 and not any(p in outline.pins for p in range(start, stop)):
            if any(outline.kinds[p] != "rows" for p in range(start, stop)):
                yield DraftStage(start, stop, "everywhere", devices)
            if stop == start + 1 and outline.kinds[start] == "reduce":
                yield DraftStage(start, stop, "reduce", devices)
                for device in devices:
                    yield DraftStage(start, stop, "reduce", (device,))

    def _divided(self, start: int, stop: int, axis: str, cuts: Sequence[int]) -> DraftStage:
        kept = [n for n in range(len(self._devices)) if cuts[n] < cuts[n + 1]]
        devices = tuple(self._devices[n] for n in kept)
        ends = (*(cuts[n] for n in kept), cuts[-1])
        return DraftStage(start, stop, axis, devices, ends)  # type: ignore[arg-type]


def chain_drafts(evaluator: Evaluator, most: int) -> list[Draft]:
    """All ways to cut the network into ranges, each whole on a device, which may have several.

    Nothing where there are more than ``most``.
    """
    total, devices = len(evaluator.outline), evaluator.devices
    if evaluator.outline.pins or len(devices) * (len(devices) + 1) ** (total - 1) > most:
        return []
    return [
        tuple(
            DraftStage(start, stop, "none", (device,))
            for (start, stop), device in zip(pairwise((0, *inner, total)), places, strict=True)
        )
        for count in range(total)
        for inner in combinations(range(1, total), count)
        for places in product(devices, repeat=count + 1)
        if all(before != after for before, after in pairwise(places))
    ]


def divisions(parts: int, devices: int) -> Iterator[tuple[int, ...]]:
    """Yield cuts of ``parts`` among devices in order, at least two of them with a part.

    >>> list(divisions(2, 2))
    [(0, 1, 2)]
    """
    for bars in combinations(range(parts + devices - 1), devices - 1):
        cuts = (0, *(bar - number for number, bar in enumerate(bars)), parts)
        if parts and sum(a < b for a, b in pairwise(cuts)) > 1:
            yield cuts


class _Walk:
    """Depth first over stages; a prefix that is too slow already is dropped."""

    def __init__(self, evaluator: Evaluator, space: Space) -> None:
        self._evaluator = evaluator
        self._space = space
        self._floors = evaluator.remember(MinimumCosts)
        self._draft: Draft = ()
        self._score: Score = IMPOSSIBLE
        names = evaluator.outline.order
        self._rest = [0.0] * (len(names) + 1)
        self._fluid = {name: self._floors.fluid_s([name]) for name in names}
        for position in range(len(names) - 1, -1, -1):
            self._rest[position] = self._rest[position + 1] + self._fluid[names[position]]
        self._speeds = [
            max((self._speed(name, number) for name in names), default=1.0)
            for number in range(len(self._floors.devices))
        ]

    def _speed(self, name: str, number: int) -> float:
        seconds = self._floors.layer_s[name][number]
        required = self._floors.required[name]
        return self._fluid[name] / required / seconds if seconds > 0 and required > 0 else 0.0

    def best(self) -> Draft:
        """The best draft.

        Raises:
            InfeasibleError: None is possible.
        """
        singles = single_drafts(self._evaluator)
        for draft in singles:
            self._try(draft)
        self._extend((), 0, dict.fromkeys(self._floors.devices, 0.0))
        return self._evaluator.best([self._draft] if self._draft else singles)

    def _try(self, draft: Draft) -> None:
        score = self._evaluator.score(draft)
        if score < self._score:
            score = self._evaluator.judge(draft)
        if score < self._score:
            self._draft, self._score = draft, score

    def _extend(self, draft: Draft, start: int, busy: dict[str, float]) -> None:
        total = len(self._evaluator.outline)
        if start == total:
            self._try(draft)
            return
        for stop in range(total, start, -1):
            for stage in self._space.stages(start, stop):
                longer = (*draft, stage)
                load = self._add_load(busy, longer)
                if self._least_s(load, stop) <= self._score[0]:
                    self._extend(longer, stop, load)

    def _add_load(self, busy: dict[str, float], draft: Draft) -> dict[str, float]:
        """Busy seconds per device with the last stage; sums over rows count as nothing."""
        load = dict(busy)
        for device, seconds in self._evaluator.loads.of(draft[-1]):
            load[device] += seconds
        return load

    def _least_s(self, busy: dict[str, float], position: int) -> float:
        """The least latency with these loads, the rest shared as a fluid."""
        if self._evaluator.options.objective != "latency":
            return 0.0
        loads = sorted(zip(busy.values(), self._speeds, strict=True))
        rest, level, speed = self._rest[position], 0.0, 0.0
        for load, own in loads:
            if speed and (load - level) * speed >= rest:
                break
            rest -= (load - level) * speed
            level, speed = load, speed + own
        least = level + rest / speed if speed else 0.0
        return max(least, loads[-1][0] if loads else 0.0) * (1 - 1e-9)
