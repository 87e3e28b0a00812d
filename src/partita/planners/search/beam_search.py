"""Where stages end and how each is divided, from the first layer to the last, on exact times.

At each place the most promising beginnings of plans are kept, with the times of all devices, links
and pieces; each is extended by one more stage in many ways. It is dynamic programming over cut
positions as far as a state is more than one number: by how late it is, and by how soon one device
could complete it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from partita.planners.drafts.draft import Draft, DraftStage, share_cuts, whole_stages
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.incremental import IncrementalPricer
from partita.planners.pricing.pricing_state import PricingState
from partita.planners.search.exhaustive import Space

#: Places to cut that are looked at, at most.
MOST_PLACES = 14
#: Beginnings kept per place, by each of the two measures.
WIDTH = 8
#: Beginnings kept that divide the same ranges, by each measure.
MOST_ALIKE = 3
#: Ranges with fewer stages than this are tried in all ways.
FEW_STAGES = 120
#: Of the evaluations one range's stages take at most one in so many.
_PARTS = 4
#: Devices that a whole stage is tried on.
_MOST_HOMES = 4
#: Extensions that cost about as much as pricing one draft.
_STEPS_PER_EVALUATION = 4


@dataclass(frozen=True)
class _Beginning:
    draft: Draft
    state: PricingState
    late_s: float
    done_s: float


class BeamSearch:
    """Extends beginnings of plans from place to place.

    Args:
        axes: Axes along which stages may be divided; all when None.
    """

    def __init__(
        self, evaluator: Evaluator, pricer: IncrementalPricer, axes: Sequence[str] | None
    ) -> None:
        self._evaluator = evaluator
        self._pricer = pricer
        self._outline = evaluator.outline
        self._axes = axes
        self._space = Space(evaluator)
        self._costs = evaluator.ranges
        self._total = len(evaluator.outline)
        self._steps = 0
        self._counted = 0
        self._few = 0
        whole = {d: self._costs.work_s(0, self._total, d) for d in evaluator.devices}
        self._ranked = sorted(evaluator.devices, key=lambda device: whole[device])
        self._homes = self._ranked[:_MOST_HOMES]
        if evaluator.requester in evaluator.devices:
            self._homes = list(dict.fromkeys((*self._homes, evaluator.requester)))
        self._stages: dict[tuple[int, int], list[DraftStage]] = {}

    def run(self, most_evaluations: int) -> list[Draft]:
        """Complete drafts, the best first.

        Args:
            most_evaluations: That this may take; an extension counts as a part of one.
        """
        most = most_evaluations * _STEPS_PER_EVALUATION
        self._few = min(FEW_STAGES, most_evaluations // _PARTS)
        places = self._places()
        reached: dict[int, list[_Beginning]] = {place: [] for place in places}
        reached[0] = [_Beginning((), self._pricer.begin(), 0.0, 0.0)]
        ends: dict[Draft, float] = {}
        for number, start in enumerate(places[:-1]):
            kept = _keep(reached.pop(start))
            # What is left of the steps is shared among the places that are left.
            quota = (most - self._steps) / (len(places) - 1 - number)
            spent = self._steps
            for begun in kept:
                self._settle()
                if self._evaluator.budget.is_spent:
                    break
                for stop in places[number + 1 :]:
                    if self._evaluator.budget.is_over:
                        break
                    if self._steps - spent > quota and begun is not kept[0]:
                        break
                    for longer in self._extend(begun, stop, ends):
                        reached[stop].append(longer)
        self._settle()
        return sorted(ends, key=lambda draft: ends[draft])

    def _settle(self) -> None:
        """Count the steps since the last call as evaluations."""
        total = self._steps // _STEPS_PER_EVALUATION
        self._evaluator.budget.evaluations += total - self._counted
        self._counted = total

    def _places(self) -> list[int]:
        outline = self._outline
        borders = {0, self._total}
        for position in outline.pins:
            borders |= {position, position + 1}
        for position in range(1, self._total):
            if outline.kinds[position - 1] != outline.kinds[position]:
                borders.add(position)
        inner = [place for place in range(1, self._total) if place not in borders]
        inner = outline.least_crossed(inner)
        if len(borders) > MOST_PLACES:
            ranked = sorted(borders, key=lambda p: (outline.live_bytes[p], p))
            borders = {0, self._total, *ranked[:MOST_PLACES]}
        return sorted(borders | set(inner[: max(0, MOST_PLACES - len(borders))]))

    def _extend(
        self, begun: _Beginning, stop: int, ends: dict[Draft, float]
    ) -> Iterator[_Beginning]:
        start = begun.draft[-1].stop if begun.draft else 0
        last = begun.draft[-1] if begun.draft else None
        for stage in (*self._ways(start, stop), *self._likes(begun, stop)):
            if last and stage.axis == last.axis == "none" and stage.devices == last.devices:
                continue  # one longer stage is the same
            self._steps += 1
            draft = (*begun.draft, stage)
            state = self._pricer.extend(begun.state, draft)
            if state is None:
                continue
            done_s = self._complete(draft, state, ends)
            yield _Beginning(draft, state, state.last_s, done_s)

    def _complete(self, draft: Draft, state: PricingState, ends: dict[Draft, float]) -> float:
        """The least latency with the rest on one device."""
        stop = draft[-1].stop
        best = float("inf")
        homes = self._homes if stop < self._total else self._homes[:1]
        for home in homes:
            rest = whole_stages(self._outline, stop, self._total, home)
            whole, after = draft, state
            for stage in rest:
                whole = (*whole, stage)
                found = self._pricer.extend(after, whole)
                if found is None:
                    break
                after = found
            else:
                self._steps += 1
                latency_s = self._pricer.answer_s(after)
                if latency_s < best:
                    best = ends[whole] = latency_s
        return best

    def _ways(self, start: int, stop: int) -> list[DraftStage]:
        """How a range may run, whatever was before."""
        found = self._stages.get((start, stop))
        if found is None:
            found = self._space.few_stages(start, stop, self._few)
            if found is None:
                found = list(dict.fromkeys(self._some_ways(start, stop)))
            if self._axes is not None:
                found = [s for s in found if not s.cuts or s.axis in self._axes]
            self._stages[start, stop] = found
        return found

    def _some_ways(self, start: int, stop: int) -> Iterator[DraftStage]:
        outline, devices = self._outline, self._evaluator.devices
        if any(p in outline.pins for p in range(start, stop)):
            places = {outline.pins.get(p) for p in range(start, stop)}
            for home in devices:
                if places <= {home}:
                    yield DraftStage(start, stop, "none", (home,))
            return
        for home in self._homes:
            yield DraftStage(start, stop, "none", (home,))
        kinds = {outline.kinds[p] for p in range(start, stop)}
        if kinds == {"rows"}:
            yield from self._divided(start, stop, "rows", outline.rows(start, stop))
        elif stop == start + 1 and kinds == {"reduce"}:
            yield DraftStage(start, stop, "reduce", devices)
            yield from (DraftStage(start, stop, "reduce", (home,)) for home in self._homes)
        if "rows" not in kinds:
            yield DraftStage(start, stop, "everywhere", devices)
        if channels := outline.channels(start, stop):
            yield from self._divided(start, stop, "output_channels", channels)

    def _divided(self, start: int, stop: int, axis: str, height: int) -> Iterator[DraftStage]:
        """Yield divisions among the most able devices, by speed alone and with the input's way."""
        for rates in self._rates(start, stop):
            ranked = sorted(rates, key=lambda device: -rates[device])
            for count in _counts(len(ranked)):
                crew = [d for d in self._evaluator.devices if d in ranked[:count]]
                cuts = share_cuts([rates[d] for d in crew], height)
                yield DraftStage(start, stop, axis, tuple(crew), cuts)  # type: ignore[arg-type]

    def _rates(self, start: int, stop: int) -> Iterator[dict[str, float]]:
        evaluator, costs = self._evaluator, self._costs
        seconds = {d: costs.work_s(start, stop, d) for d in evaluator.devices}
        yield {d: 1 / max(s, 1e-12) for d, s in seconds.items()}
        if start == 0:
            moved = {d: costs.move_s(0, evaluator.requester, d) for d in evaluator.devices}
            yield {d: 1 / max(s + moved[d], 1e-12) for d, s in seconds.items()}

    def _likes(self, begun: _Beginning, stop: int) -> Iterator[DraftStage]:
        """Yield divisions like the one before, and such that all would end together."""
        if not begun.draft or begun.draft[-1].axis != "rows":
            return
        last, outline = begun.draft[-1], self._outline
        start = last.stop
        if not outline.is_divisible(start, stop):
            return
        height = outline.rows(start, stop)
        shares = [width + 1e-9 for width in last.widths]
        yield DraftStage(start, stop, "rows", last.devices, share_cuts(shares, height))
        rates = next(self._rates(start, stop))
        free = [self._pricer.free_s(begun.state, device) for device in last.devices]
        shares = fill([rates[device] for device in last.devices], free)
        yield DraftStage(start, stop, "rows", last.devices, share_cuts(shares, height))


def fill(rates: Sequence[float], free_s: Sequence[float]) -> list[float]:
    """Shares of one unit of work such that all who take part end together.

    >>> fill([1.0, 1.0], [0.0, 0.5])
    [0.75, 0.25]
    """
    order = sorted(range(len(rates)), key=lambda at: free_s[at])
    level, speed, left = 0.0, 0.0, 1.0
    for at in order:
        if speed and (free_s[at] - level) * speed >= left:
            break
        left -= max(0.0, free_s[at] - level) * speed
        level, speed = free_s[at], speed + rates[at]
    level += left / speed
    return [max(0.0, (level - free) * rate) for rate, free in zip(rates, free_s, strict=True)]


def _counts(devices: int) -> list[int]:
    """How many devices take part: all, and some fewer.

    >>> _counts(16)
    [2, 3, 4, 6, 8, 12, 16]
    """
    return [count for count in (2, 3, 4, 6, 8, 12) if count < devices] + [devices] * (devices > 1)


def _keep(found: Sequence[_Beginning]) -> list[_Beginning]:
    """The least late beginnings, and those that one device completes soonest."""
    chosen: dict[Draft, _Beginning] = {}
    for measure in (
        lambda one: (one.done_s, one.late_s),
        lambda one: (one.late_s, one.done_s),
    ):
        seen: dict[object, int] = {}
        count = 0
        for one in sorted(found, key=measure):
            shape = shape_of(one.draft)
            seen[shape] = seen.get(shape, 0) + 1
            if seen[shape] <= MOST_ALIKE and count < WIDTH:
                chosen[one.draft] = one
                count += 1
    return list(chosen.values())


def shape_of(draft: Draft) -> tuple[tuple[int, int, str], ...]:
    """Which ranges of a draft are divided, and how."""
    return tuple((stage.start, stage.stop, stage.axis) for stage in draft if stage.cuts)
