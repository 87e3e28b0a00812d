"""Groups of layers one after the other, each on devices of its own: the best by dynamic programs.

A state is where the last group ends and how many devices of a fixed order are taken; all places
where a next range may end are one row of an array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import gcd, inf
from typing import NamedTuple

import numpy as np

from partita.planners.drafts.draft import Draft, DraftAxis, DraftStage
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.simple.cutting.tables import Table, find_kinds
from partita.planners.simple.dividing import LEAST_S, MOST_PARTS, divide_layer, part_uses

#: Requests of the slowest replica where speeds differ: shares are in thirds of it. Not tuned.
_FINEST = 3
#: What shares add up to, about, at most.
_MOST_SHARES = 100


class _Way(NamedTuple):
    """How a state is reached.

    Attributes:
        start: Where its last group begins.
        used: How many devices were taken before.
        stage: The group; None for a range whole on the next devices.
    """

    start: int
    used: int
    stage: DraftStage | None


class Wanted(NamedTuple):
    """What is wanted of groups.

    Attributes:
        is_even: Whether the longest group counts first, then the way through; else in turn.
        replicas: Whether groups may be replicated.
        splits: Whether single layers may be divided.
    """

    is_even: bool
    replicas: bool
    splits: bool


class _Divided(NamedTuple):
    """A layer divided among devices.

    Attributes:
        stage: For any devices of the same kinds.
        seconds: Of the longest part.
        held: Bytes of each part, and the number of its device.
    """

    stage: DraftStage
    seconds: float
    held: tuple[tuple[int, int], ...]


class GroupCosts:
    """What groups cost: the same for all devices of a kind.

    Attributes:
        kinds: Number of each device's kind.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.kinds = {d: k for k, names in enumerate(find_kinds(evaluator)) for d in names}
        self._seconds: dict[int, Table] = {}
        self._bytes: dict[int, Table] = {}
        self._divided: dict[tuple[int, tuple[int, ...]], list[_Divided]] = {}

    def kinds_of(self, devices: Sequence[str]) -> tuple[int, ...]:
        """The kinds of some devices: whose are equal cost the same."""
        return tuple(self.kinds[device] for device in devices)

    def seconds(self, device: str) -> Table:
        """The seconds of each range on a device, by start and stop."""
        kind, ranges = self.kinds[device], self.evaluator.ranges
        if kind not in self._seconds:
            self._seconds[kind] = self._table(lambda a, b: ranges.work_s(a, b, device))
        return self._seconds[kind]

    def bytes(self, device: str) -> Table:
        """The memory that each range takes on a device, by start and stop."""
        kind, ranges = self.kinds[device], self.evaluator.ranges
        if kind not in self._bytes:
            self._bytes[kind] = self._table(lambda a, b: ranges.memory(a, b, device).total)
        return self._bytes[kind]

    def _table(self, find: Callable[[int, int], float]) -> Table:
        count = len(self.evaluator.outline)
        table = np.full((count + 1, count + 1), inf)
        for start in range(count):
            if self.evaluator.budget.is_late(1.0):
                break
            for stop in range(start + 1, count + 1):
                table[start, stop] = find(start, stop)
        return table

    def divided(self, position: int, devices: Sequence[str]) -> list[_Divided]:
        """One layer divided among devices, along each axis that it has."""
        key = position, self.kinds_of(devices)
        if key not in self._divided:
            self._divided[key] = [
                _Divided(stage, self._longest_s(stage), self._held(stage))
                for stage in divide_layer(self.evaluator, position, devices)
            ]
        return self._divided[key]

    def _held(self, stage: DraftStage) -> tuple[tuple[int, int], ...]:
        return tuple((number, use.total) for number, use in part_uses(self.evaluator, stage))

    def _longest_s(self, stage: DraftStage) -> float:
        return max((seconds for _, seconds in self.evaluator.loads.of(stage)), default=0.0)


class Grouping:
    """The best groups for one order of the devices.

    Args:
        room: Part of each device's memory that a group may take; infinite where devices that swap
            may hold more than there is.

    Attributes:
        found: The best groups of the whole network, one draft for each number of devices.
        was_tight: Whether memory forbade a group.
    """

    def __init__(
        self, costs: GroupCosts, order: tuple[str, ...], wanted: Wanted, room: float
    ) -> None:
        self._costs, self._evaluator = costs, costs.evaluator
        self._order, self._wanted = order, wanted
        self._room = {device: room_bytes(costs.evaluator, device, room) for device in order}
        count = len(costs.evaluator.outline)
        shape = len(order) + 1, count + 1
        self._longest_s, self._total_s = np.full(shape, inf), np.full(shape, inf)
        self._longest_s[0, 0] = self._total_s[0, 0] = 0.0
        #: Where each state comes from: place, devices taken, and what was done there.
        self._ways: list[_Way] = [_Way(0, 0, None)]
        self._way = np.zeros(shape, dtype=np.int64)
        self.was_tight = False
        self.found = list(self._run())

    def _run(self) -> Iterator[Draft]:
        count, most = len(self._evaluator.outline), len(self._order)
        for start in range(count):
            for used in range(most + 1):
                if np.isfinite(self._total_s[used, start]):
                    if self._evaluator.budget.is_late(1.0):
                        break
                    self._go_on(start, used)
        for used in range(most + 1):
            if np.isfinite(self._total_s[used, count]):
                yield self._groups(count, used)

    def _groups(self, stop: int, used: int) -> Draft:
        """What led to a state."""
        groups: list[DraftStage] = []
        while stop:
            start, before, stage = self._ways[int(self._way[used, stop])]
            devices = self._order[before:used]
            if stage is None:
                axis: DraftAxis = "none" if len(devices) == 1 else "replica"
                stage = self._shared(DraftStage(start, stop, axis, devices))
            groups.append(stage)
            stop, used = start, before
        return tuple(groups[::-1])

    def _go_on(self, start: int, used: int) -> None:
        """Enter all that may follow a state.

        Layers that must stay on a device are a group there, whatever else it computes.
        """
        outline, free = self._evaluator.outline, self._order[used:]
        sources = self._sources(start, used)
        pin = outline.pins.get(start)
        if pin is not None:
            stage = DraftStage(start, start + 1, "none", (pin,))
            seconds = self._evaluator.ranges.work_s(start, start + 1, pin)
            self._enter_one(_Way(start, used, stage), used, seconds, sources)
            return
        self._enter_ranges(start, used, sources)
        for count in range(2, min(len(free), MOST_PARTS) + 1 if self._wanted.splits else 2):
            for one in self._costs.divided(start, free[:count]):
                if any(size > self._room[free[at]] for at, size in one.held):
                    self.was_tight = True
                    continue
                stage = replace(one.stage, devices=free[:count])
                self._enter_one(_Way(start, used, stage), used + count, one.seconds, sources)

    def _sources(self, place: int, used: int) -> tuple[str, ...]:
        """Who holds what was made before a state."""
        if not place:
            return (self._evaluator.requester,)
        way = self._ways[int(self._way[used, place])]
        return way.stage.devices if way.stage else self._order[way.used : used]

    def _enter_ranges(self, start: int, used: int, sources: Sequence[str]) -> None:
        """Enter the ranges from a place on, whole on the next device or replicated on several."""
        outline = self._evaluator.outline
        end = min((at for at in outline.pins if at > start), default=len(outline))
        stops = slice(start + 1, end + 1)
        fits = np.ones(end - start, dtype=bool)
        rates = np.full(end - start, 1e-300)  # where the time ended tables, no device has a rate
        most = MOST_PARTS if self._wanted.replicas else 1
        moved_s, back_s = 0.0, inf
        for count, device in enumerate(self._order[used : used + most], start=1):
            fits &= self._costs.bytes(device)[start, stops] <= self._room[device]
            self.was_tight |= not fits.all()
            seconds = self._costs.seconds(device)[start, stops]
            fits &= np.isfinite(seconds)
            if not fits.any():
                break
            rates += 1 / np.maximum(seconds, LEAST_S)
            moved_s = max(moved_s, self._move_s(start, sources, device))
            if end == len(outline):
                back_s = min(back_s, self._back_s((device,)))
            longest_s = np.maximum(1 / rates, moved_s / count)
            total_s = np.where(fits, count / rates + moved_s, inf)
            if end == len(outline):
                longest_s[-1], total_s[-1] = (
                    max(longest_s[-1], back_s / count),
                    total_s[-1] + back_s,
                )
            self._enter(_Way(start, used, None), (used + count, stops), longest_s, total_s)

    def _enter_one(self, way: _Way, used: int, seconds: float, sources: Sequence[str]) -> None:
        """Enter one layer on the devices of a way's stage."""
        assert way.stage is not None
        devices, stop = way.stage.devices, way.stage.stop
        moved_s = max(self._move_s(way.start, sources, device) for device in devices)
        longest_s, total_s = max(seconds, moved_s), seconds + moved_s
        if stop == len(self._evaluator.outline):
            back_s = self._back_s(devices)
            longest_s, total_s = max(longest_s, back_s / len(devices)), total_s + back_s
        where = (used, slice(stop, stop + 1))
        self._enter(way, where, np.array([longest_s]), np.array([total_s]))

    def _enter(self, way: _Way, where: tuple[int, slice], longest_s: Table, total_s: Table) -> None:
        """Keep what is better than what is known where groups may end."""
        longest_s = np.maximum(longest_s, self._longest_s[way.used, way.start])
        total_s = total_s + self._total_s[way.used, way.start]
        known = self._longest_s[where], self._total_s[where]
        (first, second), (old, older) = (longest_s, total_s), known
        if not self._wanted.is_even:
            (first, second), (old, older) = (total_s, longest_s), known[::-1]
        is_better = np.isfinite(total_s) & ((first < old) | ((first == old) & (second < older)))
        if is_better.any():
            known[0][is_better], known[1][is_better] = longest_s[is_better], total_s[is_better]
            self._way[where][is_better] = len(self._ways)
            self._ways.append(way)

    def _move_s(self, place: int, sources: Sequence[str], target: str) -> float:
        """What crosses a cut gets to a device from the nearest of those that have it."""
        return min(self._evaluator.ranges.move_s(place, source, target) for source in sources)

    def _back_s(self, devices: Sequence[str]) -> float:
        """The answer gets to the requester from the nearest of those that have it."""
        return self._move_s(len(self._evaluator.outline), devices, self._evaluator.requester)

    def _shared(self, group: DraftStage) -> DraftStage:
        """Replicas with requests in proportion to their speed."""
        if group.axis != "replica":
            return group
        place = group.start, group.stop
        costs = [float(self._costs.seconds(device)[place]) for device in group.devices]
        loads = [max(seconds, LEAST_S) for seconds in costs]  # layers without work take none
        rates = [max(loads) / seconds for seconds in loads]
        finest = 1.0 if max(rates) <= 1.01 else float(_FINEST)
        finest = min(finest, _MOST_SHARES / sum(rates))  # one that swaps may be far slower
        shares = [max(1, round(finest * rate)) for rate in rates]
        divisor = gcd(*shares)
        return replace(group, shares=tuple(share // divisor for share in shares))


def room_bytes(evaluator: Evaluator, device: str, room: float) -> float:
    """A part of a device's memory; where that is infinite, what it may hold with its swap."""
    if room == inf:
        return evaluator.problem.limit_bytes(device)
    return room * evaluator.cluster.device(device).memory_bytes
