"""One layer divided among several devices, and what each part takes of its device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from partita.cost import MemoryUse
from partita.cost.memory import one_by_one
from partita.planners.drafts.draft import DraftStage, share_cuts
from partita.planners.pricing.evaluator import Evaluator

#: What takes no time at all would be done infinitely often per second.
LEAST_S = 1e-12
#: A layer is divided among at most so many devices: the paper on small boards uses two and three.
MOST_PARTS = 8
_NOTHING = one_by_one(())


def divide_layer(
    evaluator: Evaluator, position: int, devices: Sequence[str]
) -> Iterator[DraftStage]:
    """Yield one layer divided in proportion to speed along each axis that it has."""
    outline, ranges = evaluator.outline, evaluator.ranges
    stop = position + 1
    speeds = [1 / max(ranges.work_s(position, stop, device), LEAST_S) for device in devices]
    channels = outline.channels(position, stop)
    if channels >= len(devices):
        cuts = share_cuts(speeds, channels)
        yield DraftStage(position, stop, "output_channels", tuple(devices), cuts)
    if outline.is_divisible(position, stop) and outline.rows(position, stop) >= len(devices):
        cuts = share_cuts(speeds, outline.rows(position, stop))
        yield DraftStage(position, stop, "rows", tuple(devices), cuts)


def part_uses(evaluator: Evaluator, stage: DraftStage) -> Iterator[tuple[int, MemoryUse]]:
    """Yield for each part of a divided layer the number of its device and what it takes there."""
    problem, outline = evaluator.problem, evaluator.outline
    layers = outline.layers(stage.start, stage.stop)
    for number in range(len(stage.devices)):
        for boxes in problem.lowering.parts(stage, number):
            use = problem.cost.work_memory(outline.works.stage(layers, boxes))
            yield number, replace(use, pieces=use.pieces * evaluator.options.in_flight)


def fewest_parts(
    evaluator: Evaluator,
    position: int,
    order: Sequence[str],
    held: Mapping[str, MemoryUse] | None = None,
) -> Iterator[DraftStage]:
    """Yield one layer divided among as few of the devices as have memory for it, then among more.

    Args:
        held: What devices hold beside it; nothing by default.
    """
    for count in range(2, len(order) + 1):
        for stage in divide_layer(evaluator, position, order[:count]):
            if _is_held(evaluator, stage, held or {}):
                yield stage


def is_too_large(evaluator: Evaluator, position: int) -> bool:
    """Whether no device has memory for a layer, which may be divided."""
    return position not in evaluator.outline.pins and not any(
        evaluator.ranges.memory(position, position + 1, device).total
        <= evaluator.cluster.device(device).memory_bytes
        for device in evaluator.devices
    )


def _is_held(evaluator: Evaluator, stage: DraftStage, held: Mapping[str, MemoryUse]) -> bool:
    """Whether devices have memory for their parts of a stage beside what they hold."""
    devices, cluster = stage.devices, evaluator.cluster
    return all(
        one_by_one([held.get(devices[number], _NOTHING), use]).total
        <= cluster.device(devices[number]).memory_bytes
        for number, use in part_uses(evaluator, stage)
    )
