"""Drafts for throughput: replicas of the network or of ranges, and pipelines of them.

With many requests in flight nothing is faster than replicas of the whole network on all devices, in
proportion to their speed: no device waits for another, and nothing but inputs and outputs travels.
With fewer requests than devices some must share a request: the slow devices divide the first layers
in rows, of which there are most, and the fast ones take turns with the rest. Where no device holds
the whole network, ranges of it are replicated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from operator import itemgetter

from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.drafts.row_division import PrefixDivision, divide, shrink_positions
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.range_costs import RangeCosts
from partita.planners.simple.rows import device_speeds

#: What shares add up to at most: a part of a hundredth is finer than predictions are.
_MOST_TOTAL = 100
#: A coarser division of requests is taken where it costs at most this part.
_COARSE = 1.002
#: Places next to the one where both ranges of a pipeline are equally long: at least and at most,
#: and how much longer than all devices with all layers either range may take at more than the
#: least. Halos make divided ranges longer, and few bytes cross few places: of MobileNet-v2 on 12
#: unequal devices with 8 requests in flight the seventh place is the best.
_PLACES, _MOST_PLACES, _UNEVEN = 3, 10, 1.2
#: Stages in the end of divided layers that are short where others are not. Not tuned.
_MOST_SHORT = 5
#: Pipelines whose rows are balanced for each that is wanted. Not tuned.
_MORE_BALANCED = 4
#: Most moves of single rows when the rows of a pipeline are balanced.
_MOST_ROWS = 200
#: Devices that are least busy, to which rows are given.
_TAKERS = 2


def replica_drafts(evaluator: Evaluator) -> Iterator[Draft]:
    """Yield replicas of the whole network on the fastest device, the fastest two, and so on."""
    order = fastest_first(evaluator)
    for count in range(1, len(order) + 1):
        yield (replicate(evaluator, 0, len(evaluator.outline), order[:count]),)


def pipeline_drafts(evaluator: Evaluator, most: int) -> list[Draft]:
    """Pipelines of two ranges, the ``most`` least busy, with their rows balanced.

    The slowest devices have one range, divided in rows or replicated, the others replicas of the
    other. Once the time is over, those that are known by then.
    """
    order = fastest_first(evaluator)
    drafts: dict[Draft, float] = {}
    for count in range(1, len(order)):
        for draft in _two_ranges(evaluator, order[-count:], order[:-count]):
            if evaluator.budget.is_over:
                break
            drafts.setdefault(draft, expected_s(evaluator, draft))
    balanced: dict[Draft, float] = {}
    for draft in sorted(drafts, key=drafts.__getitem__)[: _MORE_BALANCED * most]:
        if evaluator.budget.is_over:
            break
        changed = balance_rows(evaluator, draft)
        balanced[changed] = expected_s(evaluator, changed)
    return sorted(balanced, key=balanced.__getitem__)[:most]


def fastest_first(evaluator: Evaluator) -> tuple[str, ...]:
    """The devices by how many networks they compute per second.

    Those that the requester has no links to and from are left out.
    """
    ranges, total, home = evaluator.ranges, len(evaluator.outline), evaluator.requester
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    linked = [
        device
        for device in evaluator.devices
        if ranges.move_s(0, home, device) + ranges.move_s(total, device, home) < inf
    ]
    return tuple(sorted(linked, key=lambda device: -speeds[device]))


def replicate(evaluator: Evaluator, start: int, stop: int, devices: Sequence[str]) -> DraftStage:
    """Replicas of a range in proportion to how fast devices are and get what they read.

    Those that the requester has no link to or from are left out where it feeds or hears replicas.
    """
    ranges, home = evaluator.ranges, evaluator.requester
    rates: dict[str, float] = {}
    for device in devices:
        lanes = [ranges.work_s(start, stop, device)]
        lanes += [ranges.move_s(0, home, device)] if start == 0 else []
        lanes += [ranges.move_s(stop, device, home)] if stop == len(evaluator.outline) else []
        if max(lanes) < inf:
            rates[device] = 1 / max(*lanes, 1e-12)
    if len(rates) < 2:
        return DraftStage(start, stop, "none", tuple(rates or devices[:1]))
    shares = whole_shares(tuple(rates.values()))
    return DraftStage(start, stop, "replica", tuple(rates), shares=shares)


def whole_shares(rates: Sequence[float], most: int = _MOST_TOTAL) -> tuple[int, ...]:
    """Whole numbers nearly in proportion to rates, small ones where they are as good.

    Args:
        rates: Above 0.
        most: What they add up to at most, where that is twice as many as they are.

    >>> whole_shares([1 / 4, 1 / 8, 1 / 12, 1 / 16])
    (12, 6, 4, 3)
    """
    best: tuple[float, tuple[int, ...]] = (inf, ())
    shares = [1] * len(rates)
    for total in range(len(rates), max(most, 2 * len(rates)) + 1):
        period = max(share / rate for share, rate in zip(shares, rates, strict=True)) / total
        if period * _COARSE < best[0]:
            best = period, tuple(shares)
        # One request more, to whoever is done with it first.
        place = min(range(len(rates)), key=lambda at: (shares[at] + 1) / rates[at])
        shares[place] += 1
    return best[1]


def busiest_s(evaluator: Evaluator, draft: Draft) -> float:
    """The busiest device's seconds of computing per request, by shares of replicas."""
    return max(_busy(evaluator, draft).values())


def _busy(evaluator: Evaluator, draft: Draft) -> dict[str, float]:
    busy = dict.fromkeys(evaluator.devices, 0.0)
    for stage in draft:
        parts = _parts(stage) if stage.axis == "replica" else {}
        for device, seconds in evaluator.loads.of(stage):
            busy[device] = busy.get(device, 0.0) + seconds * parts.get(device, 1.0)
    return busy


def expected_s(evaluator: Evaluator, draft: Draft) -> float:
    """About the seconds per request: the busiest device's, or a request's among those in flight.

    What a request takes is what the devices that share a stage take at most, what replicas take in
    the mean, and the moves between stages, which devices that share one make together.
    """
    total, ranges, home = len(evaluator.outline), evaluator.ranges, evaluator.requester
    latency_s = 0.0
    before: dict[str, float] = {home: 1.0}
    for stage in draft:
        after = _parts(stage)
        seconds = [(after[device], took) for device, took in evaluator.loads.of(stage)]
        if stage.axis == "replica":
            latency_s += sum(part * took for part, took in seconds)
        else:
            latency_s += max((took for _, took in seconds), default=0.0)
        if before != after:
            latency_s += _mean_move_s(ranges, stage.start, before, after)
        before = after
    latency_s += _mean_move_s(ranges, total, before, {home: 1.0})
    return max(busiest_s(evaluator, draft), latency_s / evaluator.options.in_flight)


def _parts(stage: DraftStage) -> dict[str, float]:
    """About the part of what is made of a stage that each of its devices holds."""
    weights = stage.shares or stage.widths or [1] * len(stage.devices)
    if stage.axis == "tiles":
        columns = [stop - start for start, stop in pairwise(stage.columns)]
        weights = [height * width for height in stage.widths for width in columns]
    parts = dict.fromkeys(stage.devices, 0.0)
    for device, weight in zip(stage.devices, weights, strict=True):
        parts[device] += weight / sum(weights)
    return parts


def _mean_move_s(
    ranges: RangeCosts, place: int, before: Mapping[str, float], after: Mapping[str, float]
) -> float:
    """Every device that has a part sends it to every one that wants a part, all at once."""
    return max(
        sent * wanted * ranges.move_s(place, source, target)
        for source, sent in before.items()
        for target, wanted in after.items()
    )


def _two_ranges(evaluator: Evaluator, slow: Sequence[str], fast: Sequence[str]) -> Iterator[Draft]:
    total = len(evaluator.outline)
    for place in _balanced_places(evaluator, slow, fast):
        tail = replicate(evaluator, place, total, fast)
        yield (replicate(evaluator, 0, place, slow), tail)
        for head in _divided_heads(evaluator, place, slow):
            yield (*head, tail)
    for place in _balanced_places(evaluator, fast, slow):
        yield (replicate(evaluator, 0, place, fast), replicate(evaluator, place, total, slow))


def _balanced_places(
    evaluator: Evaluator, first: Sequence[str], second: Sequence[str]
) -> list[int]:
    """Where to cut for ranges that take some devices about as long as others, nearest first."""
    ranges, total = evaluator.ranges, len(evaluator.outline)

    def speed(devices: Sequence[str], start: int, stop: int) -> float:
        return sum(1 / max(ranges.work_s(start, stop, device), 1e-12) for device in devices)

    def period(place: int) -> float:
        return max(1 / speed(first, 0, place), 1 / speed(second, place, total))

    periods: dict[int, float] = {}
    for place in range(1, total):
        if evaluator.budget.is_over:
            return []
        periods[place] = period(place)
    most_s = _UNEVEN / speed((*first, *second), 0, total)
    count = min(_MOST_PLACES, sum(period_s <= most_s for period_s in periods.values()))
    return sorted(periods, key=periods.__getitem__)[: max(_PLACES, count)]


def _divided_heads(evaluator: Evaluator, place: int, devices: Sequence[str]) -> Iterator[Draft]:
    """Yield the layers before a place divided in rows, with long stages and short ones.

    Halos of long stages take computing, exchanges between short ones time. Early layers have the
    most rows, and so the least halos for it: some drafts have short stages in the end alone.
    """
    outline = evaluator.outline
    if len(devices) < 2 or not outline.is_divisible(0, place):
        return
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    shares = tuple(speeds[device] for device in devices)
    shrinking = [p for p in shrink_positions(outline, 0, place) if p < place]
    narrow = [p for p in shrinking if outline.live_bytes[p] <= outline.live_bytes[p + 1]]
    most_short = min(_MOST_SHORT, len(narrow))
    for ends in dict.fromkeys(
        (
            tuple(range(1, place + 1)),
            (*shrinking, place),
            *((*narrow[len(narrow) - short :], place) for short in range(most_short + 1)),
        )
    ):
        division = PrefixDivision(tuple(devices), shares, ends, devices[0])
        yield tuple(stage for stage in divide(outline, division) if stage.stop <= place)


def balance_rows(evaluator: Evaluator, draft: Draft) -> Draft:
    """The draft with single rows moved from the busiest device that has any, while that helps."""
    sharing = {device for stage in draft if stage.axis == "rows" for device in stage.devices}
    for _ in range(_MOST_ROWS if sharing else 0):
        if evaluator.budget.is_over:
            break
        busy = _busy(evaluator, draft)
        giver = max(sorted(sharing), key=busy.__getitem__)
        best = (busy[giver], draft)
        for index, stage in enumerate(draft):
            if stage.axis != "rows" or giver not in stage.devices:
                continue
            for taker in sorted(stage.devices, key=busy.__getitem__)[:_TAKERS]:
                moved = _move_row(stage, giver, taker)
                if moved is not None:
                    changed = (*draft[:index], moved, *draft[index + 1 :])
                    found = _busy(evaluator, changed)
                    best = min(best, (max(found[d] for d in sharing), changed), key=itemgetter(0))
        if best[1] is draft:
            break
        draft = best[1]
    return draft


def _move_row(stage: DraftStage, giver: str, taker: str) -> DraftStage | None:
    widths = stage.widths
    at, to = stage.devices.index(giver), stage.devices.index(taker)
    if at == to or widths[at] <= 1:
        return None
    widths[at] -= 1
    widths[to] += 1
    return stage.with_widths(widths)
