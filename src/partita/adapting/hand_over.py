"""A plan without one of its devices: what that one had goes to its neighbours."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from partita.cluster import Cluster
from partita.compile import check_plan
from partita.cost import CostModel
from partita.errors import InfeasibleError, PlanError
from partita.plan import Identity, Plan, Shard, Stage
from partita.regions import Region

_LOG = logging.getLogger(__name__)


def plan_without(cost: CostModel, plan: Plan, lost: Iterable[str]) -> Plan | None:
    """The plan with what lost devices had at their neighbours; None where that is no sound plan.

    Args:
        cost: Of the plan's graph and of what is left; says what fits in memory.
    """
    try:
        for device in lost:
            plan = hand_over(plan, device, cost.cluster)
        check_plan(cost.graph, plan, cost.cluster)
        used = {name: use.total for name, use in cost.memory(cost.layout(plan)).items()}
    except PlanError as error:
        _LOG.debug("Shares cannot be handed over: %s", error.message)
        return None
    return None if cost.cluster.overflow_bytes(used, swap=plan.may_swap) else plan


def hand_over(plan: Plan, device: str, rest: Cluster) -> Plan:
    """The plan on ``rest``, where ``device`` is lost.

    Of a stage in boxes the two devices beside it get half of its boxes each; of a stage that others
    have whole it is left out; what it had alone goes to the device of the stage before or after.

    Raises:
        InfeasibleError: No device is left that computes.
    """
    stages = tuple(
        _hand_over(stage, device, _find_heir(plan, number, device, rest))
        for number, stage in enumerate(plan.stages)
    )
    where = Identity(rest.name, rest.hash, plan.cluster.path)
    return replace(plan, stages=stages, cluster=where)


def _find_heir(plan: Plan, number: int, device: str, rest: Cluster) -> str:
    """Who gets what the device had alone: of the nearest stage, an earlier one first."""
    away = range(1, len(plan.stages))
    near = (number + step for distance in away for step in (-distance, distance))
    for place in near:
        for shard in plan.stages[place].shards if 0 <= place < len(plan.stages) else ():
            if shard.device != device:
                return shard.device
    if not rest.providers:
        raise InfeasibleError(f"Without device '{device}' none is left that computes.")
    return rest.requester if rest.requester in rest.providers else rest.providers[0]


def _hand_over(stage: Stage, device: str, heir: str) -> Stage:
    shards, shares = _divide(stage.shards, device, heir), stage.shares
    merge = _divide(stage.merge, device, heir)
    if shares:
        kept = zip(stage.shards, shares, strict=True)
        shares = tuple(share for shard, share in kept if shard.device != device)
    if len(shards) == 1 and not merge:
        return replace(stage, axis="none", shards=(Shard(shards[0].device),), shares=())
    return replace(stage, shards=shards, merge=merge, shares=shares)


def _divide(shards: Sequence[Shard], device: str, heir: str) -> tuple[Shard, ...]:
    """Shards without those of the device, whose boxes are with its neighbours'."""
    own = [number for number, shard in enumerate(shards) if shard.device == device]
    others = [shard for shard in shards if shard.device != device]
    if not own:
        return tuple(shards)
    if not others:
        return tuple(replace(shard, device=heir) for shard in shards)
    if not any(shard.boxes for shard in shards):
        return tuple(others)
    if len({shard.device for shard in shards}) < len(shards) or not _are_in_a_row(shards):
        return _rename(shards, device)
    (number,) = own
    return _spread(shards, number)


def _are_in_a_row(shards: Sequence[Shard]) -> bool:
    """Whether boxes of the same tensors follow each other along one axis."""
    first = shards[0].boxes
    for tensor, box in first.items():
        boxes = [shard.boxes.get(tensor) for shard in shards]
        if any(one is None or one.is_empty for one in boxes):
            return False
        axes = {
            axis
            for one in boxes
            if one is not None
            for axis, bounds in enumerate(one.bounds)
            if bounds != box.bounds[axis]
        }
        if len(axes) > 1:
            return False
    return all(shard.boxes.keys() == first.keys() for shard in shards)


def _spread(shards: Sequence[Shard], number: int) -> tuple[Shard, ...]:
    """Shards in a row without one, the halves of whose boxes the two beside it have as well."""
    before = shards[number - 1] if number else None
    after = shards[number + 1] if number + 1 < len(shards) else None
    grown: dict[int, dict[str, Region]] = {}
    for tensor, box in shards[number].boxes.items():
        low, high = (None if one is None else one.boxes[tensor] for one in (before, after))
        first, second = _halve(box, low, high)
        if low is not None:
            grown.setdefault(number - 1, {})[tensor] = low.hull(first)
        if high is not None:
            grown.setdefault(number + 1, {})[tensor] = high.hull(second)
    return tuple(
        replace(shard, boxes=grown.get(place, shard.boxes))
        for place, shard in enumerate(shards)
        if place != number
    )


def _halve(box: Region, low: Region | None, high: Region | None) -> tuple[Region, Region]:
    """What of a box goes to the one before it, and to the one after."""
    beside = low or high
    assert beside is not None
    axis = next(
        (n for n, bounds in enumerate(box.bounds) if bounds != beside.bounds[n]), 0
    )  # every box of a row differs along its axis
    start, stop = box.bounds[axis]
    middle = stop if high is None else start if low is None else (start + stop) // 2
    return box.with_axis(axis, (start, middle)), box.with_axis(axis, (middle, stop))


def _rename(shards: Sequence[Shard], device: str) -> tuple[Shard, ...]:
    """Shards with those of the device at the devices of the nearest others, earlier ones first."""
    renamed = []
    for number, shard in enumerate(shards):
        if shard.device == device:
            nearest = min(
                (other for other in range(len(shards)) if shards[other].device != device),
                key=lambda other: (abs(other - number), other),
            )
            shard = replace(shard, device=shards[nearest].device)
        renamed.append(shard)
    return tuple(renamed)
