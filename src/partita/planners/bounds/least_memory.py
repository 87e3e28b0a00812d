"""What memory no plan does without: proofs that devices cannot hold a network."""

from __future__ import annotations

from collections.abc import Sequence

from partita.cost import MemoryUse
from partita.planners.bounds.reach import reached_devices
from partita.planners.pricing.evaluator import Evaluator
from partita.regions import Region
from partita.units import format_bytes


def lacks_memory(evaluator: Evaluator, axes: Sequence[str] | None = None) -> str:
    """Why no plan fits the evaluator's devices, in a sentence; empty where nothing proves it.

    Every plan holds each layer's weights once at least, and some device holds at least the least
    part that a layer can be divided into. Devices that no message gets to hold nothing; those that
    may swap hold anything.

    Args:
        axes: Along which stages may be divided; all when None.
    """
    reached = reached_devices(evaluator)
    sizes = {name: evaluator.problem.limit_bytes(name) for name in reached}
    if not sizes:
        return ""
    has, largest = sum(sizes.values()), max(sizes, key=sizes.__getitem__)
    who = f"the {len(sizes)} devices have" if len(sizes) > 1 else f"device '{largest}' has"
    rest = [name for name in evaluator.devices if name not in sizes]
    unlinked = f", and no links to and from the other {len(rest)}" if rest else ""
    needs = least_weight_bytes(evaluator)
    if needs > has:
        return (
            f"the weights and a worker take {format_bytes(needs)}, {who}"
            f" {format_bytes(has)} of memory{unlinked}: {format_bytes(needs - has)} are missing."
        )
    for position, name in enumerate(evaluator.outline.order):
        part = least_part_bytes(evaluator, position, axes)
        if part > sizes[largest]:
            return (
                f"layer '{name}' takes {format_bytes(part)} at least however it is divided, and"
                f" '{largest}', the device with most memory, has {format_bytes(sizes[largest])}:"
                f" {format_bytes(part - sizes[largest])} are missing."
            )
    return ""


def least_weight_bytes(evaluator: Evaluator) -> int:
    """The weights of all layers and one worker, less what rounding may hide."""
    count = len(evaluator.outline)
    uses = [_whole(evaluator, position) for position in range(count)]
    weights = sum(use.weights for use in uses) - count * len(evaluator.devices)
    return max(0, weights) + max((use.overhead for use in uses), default=0)


def least_part_bytes(evaluator: Evaluator, position: int, axes: Sequence[str] | None) -> int:
    """What the smallest part of a layer takes on a device, whatever it is divided along."""
    outline = evaluator.outline
    splits = outline.splits(position)
    whole = _whole(evaluator, position)
    least = whole.total
    if "rows" in splits:
        least = min(least, whole.weights + whole.overhead)
    if "reduce" in splits or "input_channels" in splits:
        layer = evaluator.graph.layer(outline.order[position])
        core = outline.works.core_output(layer)  # of which every sum over a part is as large
        least = min(least, evaluator.graph.size_bytes(core) + whole.overhead)
    channels = outline.channels(position, position + 1)
    if channels > 1 and (axes is None or "output_channels" in axes):
        (tensor,) = outline.outputs(position, position + 1)
        axis = outline.channel_axis(tensor) or 0
        box = Region.full(evaluator.graph.tensors[tensor].shape).with_axis(axis, (0, 1))
        least = min(least, _memory(evaluator, position, {tensor: box}).total)
    return least


def _whole(evaluator: Evaluator, position: int) -> MemoryUse:
    tensors = evaluator.outline.outputs(position, position + 1)
    shapes = {tensor: evaluator.graph.tensors[tensor].shape for tensor in tensors}
    return _memory(evaluator, position, {t: Region.full(shape) for t, shape in shapes.items()})


def _memory(evaluator: Evaluator, position: int, boxes: dict[str, Region]) -> MemoryUse:
    work = evaluator.outline.works.stage(evaluator.outline.layers(position, position + 1), boxes)
    return evaluator.cost.work_memory(work)
