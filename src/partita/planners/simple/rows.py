"""Rows in equal or proportional shares: the twins that everything else is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import inf

from partita.planners.drafts.draft import Draft
from partita.planners.drafts.row_division import PrefixDivision, divide, shrink_positions, thin
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.objective import IMPOSSIBLE
from partita.planners.registry import Chosen, register
from partita.planners.simple.single import single_drafts

#: Ends of the division that are tried, each with all its cuts: more take longer, fewer miss ends.
#: Not tuned.
MOST_ENDS = 8
#: Where the network itself makes this many stages, they are not cut further: each cut costs
#: messages. Not tuned.
MANY_STAGES = 12


@register("equal_rows", cost="cheap")
def plan_equal_rows(evaluator: Evaluator) -> Chosen:
    """Equal shares of rows for all devices, up to the best place; the rest on one device."""
    return _divided_by(evaluator, lambda among: [1.0] * len(among.devices))


@register("proportional_rows", cost="cheap")
def plan_proportional_rows(evaluator: Evaluator) -> Chosen:
    """Shares of rows in proportion to the devices' speeds, up to the best place."""
    return _divided_by(evaluator, device_speeds)


def _divided_by(evaluator: Evaluator, share: Callable[[Evaluator], Sequence[float]]) -> Chosen:
    """Rows in some shares among the devices that can all talk with each other."""
    among = copy(evaluator)
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    among.devices = linked_devices(evaluator, speeds) or evaluator.devices
    draft = divide_rows(among, share(among))
    return Chosen(draft)


def linked_devices(evaluator: Evaluator, capability: Mapping[str, float]) -> tuple[str, ...]:
    """Devices that can all talk with each other, in the cluster's order.

    The requester and devices that must hold a tensor come first, then those with most capability.
    """
    needed = (evaluator.requester, *evaluator.outline.pins.values())
    group: list[str] = [evaluator.requester]
    for device in sorted(capability, key=lambda name: (name not in needed, -capability[name])):
        if all(can_talk(evaluator, device, other) for other in group):
            group.append(device)
    return tuple(device for device in evaluator.devices if device in group)


def can_talk(evaluator: Evaluator, first: str, second: str) -> bool:
    """Whether two devices have links in both directions, or are one."""
    links = [evaluator.cluster.link(*pair) for pair in ((first, second), (second, first))]
    return first == second or all(link and link.bandwidth_at(0.0) > 0 for link in links)


def device_speeds(evaluator: Evaluator) -> list[float]:
    """How many whole networks each device would compute per second."""
    ranges, count = evaluator.ranges, len(evaluator.outline)
    return [1.0 / max(ranges.work_s(0, count, d), 1e-12) for d in evaluator.devices]


def divide_rows(evaluator: Evaluator, shares: Sequence[float]) -> Draft:
    """The best division with fixed shares: where rows end, how layers are fused, who ends.

    Without a layer that can be divided, the best single device. Once the time is over, the best of
    those looked at until then, of one at least.

    Raises:
        InfeasibleError: No such division is possible.
    """
    drafts = list(dict.fromkeys(_row_drafts(evaluator, shares)))
    if not drafts:
        return evaluator.best(single_drafts(evaluator))
    busiest_s: dict[Draft, float] = {}
    for draft in drafts:
        if busiest_s and evaluator.budget.is_late(1.0):
            break
        busiest_s[draft] = evaluator.loads.busiest_s(draft)
    best, score = drafts[0], IMPOSSIBLE
    latency_counts = evaluator.options.objective == "latency"
    for draft in sorted(busiest_s, key=busiest_s.__getitem__):
        if latency_counts and busiest_s[draft] > score[0]:
            break
        if score[0] < inf and evaluator.budget.is_late(1.0):
            break
        new_score = evaluator.score(draft)
        if new_score < score:
            best, score = draft, new_score
    if score[0] == inf:
        return evaluator.best(busiest_s)
    return best


def _row_drafts(evaluator: Evaluator, shares: Sequence[float]) -> Iterator[Draft]:
    outline = evaluator.outline
    runs = outline.row_runs()
    tail_devices = [evaluator.requester] if evaluator.requester in evaluator.devices else []
    fastest = evaluator.devices[max(range(len(shares)), key=lambda i: device_speeds(evaluator)[i])]
    tail_devices += [] if fastest in tail_devices else [fastest]
    for end in row_ends(evaluator):
        inside = [
            p for start, stop in runs for p in (*shrink_positions(outline, start, stop), stop)
        ]
        boundaries = tuple(p for p in inside if p < end)
        for tail_device in tail_devices:
            division = PrefixDivision(evaluator.devices, tuple(shares), (end,), tail_device)
            plain = divide(outline, division)
            yield plain
            if len(plain) > MANY_STAGES:
                continue
            for kept in (boundaries, tuple(thin(boundaries, 3))):
                yield divide(outline, replace(division, boundaries=(*kept, end)))


def row_ends(evaluator: Evaluator, most: int = MOST_ENDS) -> list[int]:
    """Places where division into rows may end, few bytes crossing."""
    outline = evaluator.outline
    ends: list[int] = []
    for start, stop in outline.row_runs():
        ends += [*shrink_positions(outline, start, stop), stop]
        if stop < len(outline) and outline.kinds[stop] == "reduce":
            ends.append(stop + 1)
    return thin(ends, most)
