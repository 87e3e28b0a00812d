"""Rules of nodes that only regroup axes: reshape, flatten, squeeze, depth to space and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from partita.graph.rules.base import Boxes, Emitter, NodeView, Rule, Shape, copy_node, int64, wanted
from partita.regions import Interval, Region

AxisGroup = tuple[tuple[int, ...], tuple[int, ...]]


def match_axes(source: Shape, target: Shape) -> list[AxisGroup]:
    """The finest pairing of runs of axes with equal products.

    >>> match_axes((1, 6, 4), (1, 2, 3, 4))
    [((0,), (0,)), ((1,), (1, 2)), ((2,), (3,))]
    """
    groups: list[AxisGroup] = []
    i = j = 0
    while i < len(source) and j < len(target):
        first_i, first_j = i, j
        left, right = source[i], target[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * source[i], i + 1
            else:
                right, j = right * target[j], j + 1
        groups.append((tuple(range(first_i, i)), tuple(range(first_j, j))))
    return _absorb_ones(groups, (i, len(source)), (j, len(target)))


def _absorb_ones(groups: list[AxisGroup], left: Interval, right: Interval) -> list[AxisGroup]:
    """The groups with the axes of extent 1 that remain at the end added to the last."""
    more = (tuple(range(*left)), tuple(range(*right)))
    if not groups:
        return [more]
    last = groups[-1]
    return [*groups[:-1], (last[0] + more[0], last[1] + more[1])]


def _flat_interval(shape: Shape, bounds: Sequence[Interval]) -> Interval | None:
    """The box as one run of the flattened axes; None if it is no run."""
    leading = next((axis for axis, extent in enumerate(shape) if extent != 1), None)
    if leading is None:
        return (0, 1)
    for extent, pair in zip(shape[leading + 1 :], bounds[leading + 1 :], strict=True):
        if pair != (0, extent):
            return None
    inner = prod(shape[leading + 1 :])
    return (bounds[leading][0] * inner, bounds[leading][1] * inner)


def _as_box(shape: Shape, run: Interval) -> tuple[Interval, ...] | None:
    """A run of the flattened axes as a box; None if it is no box."""
    leading = next((axis for axis, extent in enumerate(shape) if extent != 1), None)
    if leading is None:
        return tuple((0, 1) for _ in shape)
    inner = prod(shape[leading + 1 :])
    if run[0] % inner or run[1] % inner:
        return None
    whole = [(0, extent) for extent in shape]
    whole[leading] = (run[0] // inner, run[1] // inner)
    return tuple(whole)


def _inner(shape: Shape) -> int:
    leading = next((axis for axis, extent in enumerate(shape) if extent != 1), len(shape))
    return prod(shape[leading + 1 :])


def map_group(
    source: Shape, target: Shape, bounds: Sequence[Interval]
) -> tuple[Sequence[Interval], Sequence[Interval]]:
    """The source box needed for a target box, and the target box that this yields."""
    whole = tuple((0, extent) for extent in source), tuple((0, extent) for extent in target)
    run = _flat_interval(target, bounds)
    if run is None:
        return whole
    step = _inner(source)
    wide = (run[0] // step * step, -(-run[1] // step) * step)
    needed, held = _as_box(source, wide), _as_box(target, wide)
    return whole if needed is None or held is None else (needed, held)


class Reshape(Rule):
    """Row-major regrouping of axes; an axis that survives keeps its intervals."""

    @staticmethod
    def _map(view: NodeView, box: Region) -> tuple[Region, Region]:
        source, target = view.shape(), view.output_shapes[0]
        needed: list[Interval] = [(0, extent) for extent in source]
        held: list[Interval] = [(0, extent) for extent in target]
        for left, right in match_axes(source, target):
            if not right:
                continue
            spans = map_group(
                tuple(source[axis] for axis in left),
                tuple(target[axis] for axis in right),
                [box.bounds[axis] for axis in right],
            )
            for axes, spans_of, into in ((left, spans[0], needed), (right, spans[1], held)):
                for axis, span in zip(axes, spans_of, strict=True):
                    into[axis] = span
        return Region(tuple(needed)), Region(tuple(held))

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The box that flattens to the wanted run; the target shape is written anew."""
        needed, _ = self._map(view, wanted(outs))
        return [needed, *[None] * (len(view.input_shapes) - 1)]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write a reshape to the local extents, then crop."""
        box = wanted(outs)
        _, held = self._map(view, box)
        (name,) = out.node("Reshape", [args[0], out.constant(int64(held.shape))], {})
        return [out.crop(name, held, box)]


class DepthToSpace(Rule):
    """Channels become blocks of positions."""

    @staticmethod
    def _spans(view: NodeView, box: Region) -> tuple[list[Interval], list[Interval]]:
        block = int(view.attr("blocksize", 1))
        needed = [(start // block, -(-stop // block)) for start, stop in box.bounds[2:]]
        return needed, [(start * block, stop * block) for start, stop in needed]

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The blocks that meet the box, with all channels."""
        box = wanted(outs)
        needed, _ = self._spans(view, box)
        return [Region((box.bounds[0], (0, view.shape()[1]), *needed))]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node, then crop."""
        box = wanted(outs)
        _, spatial = self._spans(view, box)
        (name,) = copy_node(view, args, out)
        held = Region((box.bounds[0], (0, view.output_shapes[0][1]), *spatial))
        return [out.crop(name, held, box)]


class SpaceToDepth(Rule):
    """Blocks of positions become channels."""

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The block's positions, with all channels."""
        box = wanted(outs)
        block = int(view.attr("blocksize", 1))
        spatial = tuple((start * block, stop * block) for start, stop in box.bounds[2:])
        return [Region((box.bounds[0], (0, view.shape()[1]), *spatial))]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node, then crop channels."""
        box = wanted(outs)
        (name,) = copy_node(view, args, out)
        return [out.crop(name, box.with_axis(1, (0, view.output_shapes[0][1])), box)]
