"""Collaborative execution on small boards: a pipeline of groups that take even time.

Source: Hadidi et al., "Collaborative execution of deep neural networks on Internet of Things
devices", Procedure 1; as a baseline there, section 6: random assignment.

The paper describes the second step, "try to create groups of layers with same latency", in words.
Here it is a dynamic program over contiguous layers and numbers of devices: a group is whole on one
device, replicated on several (data parallelism), or, where it is one layer, divided among several
(model parallelism). Devices are taken in a fixed order, as groups follow each other; with boards of
one kind, as in the paper, no order is better than another. Steps three and four, deploying and
planning anew with what was measured, are :mod:`partita.adapting.tuning`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import gcd, inf
from typing import Literal, NamedTuple

from partita.cost import MemoryUse
from partita.cost.memory import one_by_one
from partita.planners.drafts.draft import Draft, DraftAxis, DraftStage, share_cuts, whole_stages
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.settings import read_settings
from partita.planners.simple.rows import device_speeds, linked_devices
from partita.planners.simple.single import single_drafts

#: Divided and replicated groups have at most so many devices: the paper uses two and three.
_MOST_SHARED = 8
#: Parts of each device's memory that groups may take: groups are looked at one by one, and where
#: what they hold together is more, they are made again with less.
_ROOMS = (1.0, 0.95, 0.85)
#: Requests of the slowest replica where speeds differ: shares are in thirds of it. Not tuned.
_FINEST = 3
#: Draws of a random assignment until one fits in memory; the last so many leave out devices that
#: have no room for a layer. Not tuned.
_DRAWS, _HEEDED = 50, 25


@dataclass(frozen=True)
class CollaborativeSettings:
    """What is wanted of the groups.

    Attributes:
        aim: ``even``: the least time of the longest group, then the shortest way through;
            ``soonest``: the shortest way through; ``objective``: whichever the objective asks for.
        replicas: Whether groups may be replicated.
        splits: Whether single layers may be divided.
    """

    aim: Literal["objective", "even", "soonest"] = "objective"
    replicas: bool = True
    splits: bool = True


@dataclass(frozen=True)
class RandomSettings:
    """How an assignment is drawn.

    Attributes:
        split: Whether a layer that no device can hold is divided among as few as can, and an
            assignment that does not fit is drawn again even where devices may swap.
    """

    split: bool = True


COLLABORATIVE = CollaborativeSettings()
RANDOM = RandomSettings()


@register("collaborative", cost="published", settings=COLLABORATIVE)
def plan_collaborative(evaluator: Evaluator) -> Chosen:
    """Groups of layers that take even time: whole, replicated, or one layer divided.

    Raises:
        InfeasibleError: No division fits.
    """
    settings = read_settings(COLLABORATIVE, "collaborative", evaluator.options.method)
    drafts = dict.fromkeys([*_grouped_drafts(evaluator, settings), *single_drafts(evaluator)])
    return Chosen(evaluator.best(drafts))


@register("random", cost="published", settings=RANDOM)
def plan_random(evaluator: Evaluator) -> Chosen:
    """Every layer on a device that is drawn: what planning is compared with.

    Raises:
        InfeasibleError: No assignment that was drawn fits.
    """
    settings = read_settings(RANDOM, "random", evaluator.options.method)
    rng = random.Random(evaluator.options.seed)
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    among = copy(evaluator)
    among.devices = linked_devices(evaluator, speeds) or evaluator.devices
    drafts = []
    for number in range(_DRAWS):
        drafts.append(_draw(among, settings, rng, heeds_room=number >= _DRAWS - _HEEDED))
        is_possible = evaluator.score(drafts[-1])[0] < inf
        if _fits(evaluator, drafts[-1]) if settings.split else is_possible:
            return Chosen(drafts[-1])
    return Chosen(evaluator.best(drafts))


def _fits(evaluator: Evaluator, draft: Draft) -> bool:
    """Whether a draft is possible and no device holds more than its memory, swap or not."""
    if evaluator.score(draft)[0] == inf:
        return False
    used = evaluator.estimate(draft).memory_bytes
    return all(used[name] <= evaluator.cluster.device(name).memory_bytes for name in used)


def _draw(
    evaluator: Evaluator, settings: RandomSettings, rng: random.Random, *, heeds_room: bool
) -> Draft:
    outline, devices = evaluator.outline, evaluator.devices
    stages: list[DraftStage] = []
    held: dict[str, list[MemoryUse]] = {device: [] for device in devices}
    for position in range(len(outline)):
        roomy = devices
        if heeds_room:
            roomy = tuple(d for d in devices if _has_more_room(evaluator, position, d, held[d]))
        drawn = rng.choice(roomy or devices)
        held[drawn].append(evaluator.ranges.memory(position, position + 1, drawn))
        more = whole_stages(outline, position, position + 1, drawn)
        is_free = settings.split and position not in outline.pins
        if is_free and not _holds(evaluator, position, position + 1, devices):
            order = rng.sample(devices, len(devices))
            more = next(_fewest_parts(evaluator, position, order), more)
        last = stages[-1] if stages else None
        if last is not None and last.axis == "none" and more[0].devices == last.devices:
            stages[-1] = replace(last, stop=position + 1)
        else:
            stages.extend(more)
    return tuple(stages)


def _has_more_room(
    evaluator: Evaluator, position: int, device: str, held: Sequence[MemoryUse]
) -> bool:
    """Whether a device has room for a layer beside what it holds."""
    use = one_by_one([*held, evaluator.ranges.memory(position, position + 1, device)])
    return use.total <= evaluator.cluster.device(device).memory_bytes


def _fewest_parts(evaluator: Evaluator, position: int, order: Sequence[str]) -> Iterator[Draft]:
    """Yield one layer divided among as few of the devices as can hold it."""
    for count in range(2, len(order) + 1):
        for stage in _divided(evaluator, position, order[:count]):
            if _parts_fit(evaluator, stage, 1.0):
                yield (stage,)


def _holds(
    evaluator: Evaluator, start: int, stop: int, devices: Sequence[str], room: float = 1.0
) -> bool:
    """Whether one of the devices can hold a range whole in a part of its memory."""
    return any(
        evaluator.ranges.memory(start, stop, device).total <= _room_bytes(evaluator, device, room)
        for device in devices
    )


def _room_bytes(evaluator: Evaluator, device: str, room: float) -> float:
    """A part of a device's memory; where that is infinite, what it may hold with its swap."""
    if room == inf:
        return evaluator.problem.limit_bytes(device)
    return room * evaluator.cluster.device(device).memory_bytes


def _parts_fit(evaluator: Evaluator, stage: DraftStage, room: float) -> bool:
    """Whether each device of a divided layer can hold its part in a part of its memory."""
    problem, outline = evaluator.problem, evaluator.outline
    layers = outline.layers(stage.start, stage.stop)
    for number, device in enumerate(stage.devices):
        for boxes in problem.lowering.parts(stage, number):
            use = problem.cost.work_memory(outline.works.stage(layers, boxes))
            held = use.total + use.pieces * (evaluator.options.in_flight - 1)
            if held > _room_bytes(evaluator, device, room):
                return False
    return True


#: What groups rank whose messages have no link to go by.
_NO_WAY = (inf,)


class _Reached(NamedTuple):
    """The best groups up to a place.

    Attributes:
        rank: What is compared: less is better.
        longest_s: Of the groups' times per request, and of the messages between them.
        latency_s: All of them, one after the other.
    """

    rank: tuple[float, ...]
    longest_s: float
    latency_s: float
    groups: Draft


def _grouped_drafts(evaluator: Evaluator, settings: CollaborativeSettings) -> Iterator[Draft]:
    """Yield the best groups for each order of the devices and each number that is used.

    Where memory matters also those that hold fewer requests in flight.
    """
    for fewer in evaluator.fewer_in_flight():
        groupings = list(_groupings(fewer, settings))
        for grouping in groupings:
            yield from grouping.found
        if not any(grouping.was_tight for grouping in groupings):
            break


def _groupings(evaluator: Evaluator, settings: CollaborativeSettings) -> Iterator[_Grouping]:
    """Yield what was tried for each order of the devices: with ever less room until it fits."""
    ranges, count = evaluator.ranges, len(evaluator.outline)
    whole_s = {device: ranges.work_s(0, count, device) for device in evaluator.devices}
    fastest_first = tuple(sorted(evaluator.devices, key=lambda device: whole_s[device]))
    is_even = settings.aim == "even"
    if settings.aim == "objective":
        is_even = evaluator.options.objective == "throughput"
    rooms = [inf, *_ROOMS] if evaluator.options.swap else _ROOMS
    for order in dict.fromkeys((evaluator.devices, fastest_first, fastest_first[::-1])):
        for room in rooms:
            grouping = _Grouping(evaluator, settings, order, is_even, room)
            yield grouping
            if all(_fits(evaluator, draft) for draft in grouping.found):
                break


class _Grouping:
    """The dynamic program: for each place and number of devices used, the best groups.

    Attributes:
        found: The best groups of the whole network, one draft for each number of devices.
        was_tight: Whether memory forbade a group.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        settings: CollaborativeSettings,
        order: tuple[str, ...],
        is_even: bool,
        room: float,
    ) -> None:
        self._evaluator = evaluator
        self._settings = settings
        self._order = order
        self._is_even = is_even
        self._room = room
        self._holds: dict[tuple[int, int, str], bool] = {}
        self.was_tight = False
        self.found = list(self._run())

    def _run(self) -> Iterator[Draft]:
        evaluator, order = self._evaluator, self._order
        count = len(evaluator.outline)
        kept: dict[tuple[int, int], _Reached] = {(0, 0): _Reached((0.0,), 0.0, 0.0, ())}
        for start in range(count):
            for used in range(len(order) + 1):
                before = kept.get((start, used))
                if before is None or evaluator.budget.is_late(1.0):
                    continue
                for taken, group in self._groups(start, order[used:]):
                    key = (group.stop, used + taken)
                    after = self._add(before, group)
                    if after.rank < (kept[key].rank if key in kept else _NO_WAY):
                        kept[key] = after
        for used in range(len(order) + 1):
            if (count, used) in kept:
                yield kept[count, used].groups

    def _groups(self, start: int, free: Sequence[str]) -> Iterator[tuple[int, DraftStage]]:
        """Yield what may begin at a place, and how many of the free devices it takes.

        Layers that must stay on a device are a group there, whatever else it computes.
        """
        outline = self._evaluator.outline
        if start in outline.pins:
            yield 0, DraftStage(start, start + 1, "none", (outline.pins[start],))
            return
        end = min((at for at in outline.pins if at > start), default=len(outline))
        most = min(len(free), _MOST_SHARED) if self._settings.replicas else 1
        for stop in range(start + 1, end + 1):
            holders = {device for device in free if self._has_room(start, stop, device)}
            if not holders:
                break
            for count in range(1, most + 1):
                if holders.issuperset(free[:count]):
                    axis: DraftAxis = "none" if count == 1 else "replica"
                    yield count, DraftStage(start, stop, axis, tuple(free[:count]))
        if self._settings.splits:
            for count in range(2, min(len(free), _MOST_SHARED) + 1):
                for stage in _divided(self._evaluator, start, free[:count]):
                    if _parts_fit(self._evaluator, stage, self._room):
                        yield count, stage
                    else:
                        self.was_tight = True

    def _has_room(self, start: int, stop: int, device: str) -> bool:
        key = (start, stop, device)
        known = self._holds.get(key)
        if known is None:
            known = self._holds[key] = _holds(self._evaluator, start, stop, (device,), self._room)
            self.was_tight |= not known
        return known

    def _add(self, before: _Reached, group: DraftStage) -> _Reached:
        """The groups with one more: its seconds, and those of the messages to it."""
        evaluator = self._evaluator
        if group.axis in ("none", "replica"):
            place = (group.start, group.stop)
            loads = [evaluator.ranges.work_s(*place, device) for device in group.devices]
        else:
            loads = [seconds for _, seconds in evaluator.loads.of(group)]
        sources = before.groups[-1].devices if before.groups else (evaluator.requester,)
        moved_s = self._move_s(group.start, sources, group.devices)
        if group.axis == "replica":
            rate = sum(1 / max(seconds, 1e-12) for seconds in loads)
            period_s, latency_s = 1 / rate, len(loads) / rate
            share_s = moved_s / len(group.devices)
        else:
            period_s = latency_s = max(loads, default=0.0)
            share_s = moved_s
        longest_s = max(before.longest_s, period_s, share_s)
        total_s = before.latency_s + latency_s + moved_s
        if group.stop == len(evaluator.outline):
            back_s = self._move_s(group.stop, group.devices, (evaluator.requester,))
            longest_s, total_s = max(longest_s, back_s / len(group.devices)), total_s + back_s
        rank = (longest_s, total_s) if self._is_even else (total_s, longest_s)
        return _Reached(rank, longest_s, total_s, (*before.groups, self._share(group, loads)))

    def _share(self, group: DraftStage, loads: Sequence[float]) -> DraftStage:
        """Replicas with requests in proportion to their speed."""
        if group.axis != "replica":
            return group
        rates = [max(loads) / max(seconds, 1e-12) for seconds in loads]
        finest = 1 if max(rates) <= 1.01 else _FINEST
        shares = [max(1, round(finest * rate)) for rate in rates]
        divisor = gcd(*shares)
        return replace(group, shares=tuple(share // divisor for share in shares))

    def _move_s(self, place: int, sources: Sequence[str], targets: Sequence[str]) -> float:
        """The longest way of what crosses a cut: each target gets it from one of the sources."""
        ranges = self._evaluator.ranges
        return max(
            min(ranges.move_s(place, source, target) for source in sources) for target in targets
        )


def _divided(evaluator: Evaluator, position: int, devices: Sequence[str]) -> Iterator[DraftStage]:
    """Yield one layer divided in proportion to speed along each axis that it has."""
    outline, ranges = evaluator.outline, evaluator.ranges
    stop = position + 1
    speeds = [1 / max(ranges.work_s(position, stop, device), 1e-12) for device in devices]
    channels = outline.channels(position, stop)
    if channels >= len(devices):
        cuts = share_cuts(speeds, channels)
        yield DraftStage(position, stop, "output_channels", tuple(devices), cuts)
    if outline.is_divisible(position, stop) and outline.rows(position, stop) >= len(devices):
        cuts = share_cuts(speeds, outline.rows(position, stop))
        yield DraftStage(position, stop, "rows", tuple(devices), cuts)
