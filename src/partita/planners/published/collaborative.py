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
from math import inf
from typing import Literal

from partita.cost import MemoryUse
from partita.cost.memory import one_by_one
from partita.planners.drafts.draft import Draft, DraftStage, whole_stages
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.published.even_groups import (
    GroupCosts,
    Grouping,
    Wanted,
)
from partita.planners.registry import Chosen, register
from partita.planners.settings import read_settings
from partita.planners.simple.dividing import fewest_parts, is_too_large
from partita.planners.simple.rows import device_speeds, linked_devices
from partita.planners.simple.single import single_drafts

#: Parts of each device's memory that groups may take: groups are looked at one by one, and where
#: what they hold together is more, they are made again with less.
_ROOMS = (1.0, 0.95, 0.85)
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
        if settings.split and is_too_large(evaluator, position):
            order = rng.sample(devices, len(devices))
            divided = next(fewest_parts(evaluator, position, order), None)
            more = (divided,) if divided else more
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


def _groupings(evaluator: Evaluator, settings: CollaborativeSettings) -> Iterator[Grouping]:
    """Yield what was tried for each order of the devices: with ever less room until it fits."""
    ranges, count = evaluator.ranges, len(evaluator.outline)
    whole_s = {device: ranges.work_s(0, count, device) for device in evaluator.devices}
    fastest_first = tuple(sorted(evaluator.devices, key=lambda device: whole_s[device]))
    is_even = settings.aim == "even"
    if settings.aim == "objective":
        is_even = evaluator.options.objective == "throughput"
    wanted = Wanted(is_even, settings.replicas, settings.splits)
    rooms = [inf, *_ROOMS] if evaluator.options.swap else _ROOMS
    costs = GroupCosts(evaluator)
    orders = (evaluator.devices, fastest_first, fastest_first[::-1])
    for order in {costs.kinds_of(order): order for order in orders[::-1]}.values():
        for room in rooms:
            grouping = Grouping(costs, order, wanted, room)
            yield grouping
            if all(_fits(evaluator, draft) for draft in grouping.found):
                break
