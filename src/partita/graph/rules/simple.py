"""Rules of nodes that map positions one to one: pointwise, transpose, expand, along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partita.graph.rules.base import (
    Boxes,
    Emitter,
    NodeView,
    Rule,
    Shape,
    as_ints,
    copy_node,
    int64,
    wanted,
)
from partita.regions import Region


def broadcast_box(shape: Shape, box: Region) -> Region:
    """The part of an operand of ``shape`` that meets output ``box`` under broadcasting."""
    tail = box.bounds[len(box.bounds) - len(shape) :]
    return Region(
        tuple((0, 1) if extent == 1 else pair for extent, pair in zip(shape, tail, strict=True))
    )


class Pointwise(Rule):
    """Every output element depends on the elements at the same (broadcast) position."""

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The same box of every operand, whole where it is broadcast."""
        box = wanted(outs)
        return [None if s is None else broadcast_box(s, box) for s in view.input_shapes]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node as it is."""
        return copy_node(view, args, out)


class FirstOnly(Pointwise):
    """Pointwise in the first input; the others are scalars or vectors that are needed whole."""

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The box for the first input and all of the rest."""
        rest = [view.full(index) for index in range(1, len(view.input_shapes))]
        return [wanted(outs), *rest]


class Quantise(Pointwise):
    """Pointwise in the first input; scale and zero point are for all, a channel, or a block."""

    @staticmethod
    def _blocks(view: NodeView, box: Region) -> tuple[Region, Region]:
        """The box widened to whole blocks along the quantised axis, and the box of its blocks."""
        size = int(view.attr("block_size", 0))
        if not size:
            return box, box
        axis = int(view.attr("axis", 1)) % len(box.bounds)
        start, stop = box.bounds[axis]
        first, last = start // size, -(-stop // size)
        held = box.with_axis(axis, (first * size, min(last * size, view.shape()[axis])))
        return held, box.with_axis(axis, (first, last))

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The box, and the parameters of the box's range along the quantised axis."""
        box, blocks = self._blocks(view, wanted(outs))
        axis = int(view.attr("axis", 1)) % max(1, len(box.bounds))
        rest: list[Region | None] = []
        for index, shape in enumerate(view.input_shapes[1:], start=1):
            if shape is not None and view.attr("block_size", 0):
                rest.append(blocks)
            elif shape is not None and len(shape) == 1 and shape != (1,):
                rest.append(Region((box.bounds[axis],)))
            else:
                rest.append(view.full(index))
        return [box, *rest]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node over whole blocks, then crop."""
        (name,) = copy_node(view, args, out)
        box = wanted(outs)
        return [out.crop(name, self._blocks(view, box)[0], box)]


class PerChannel(Pointwise):
    """Pointwise in the first input; the others hold one value per channel (axis 1)."""

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The box and its channels' parameters."""
        box = wanted(outs)
        rest = [None if s is None else Region((box.bounds[1],)) for s in view.input_shapes[1:]]
        return [box, *rest]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node as it is; only its first output is ever needed at inference."""
        return copy_node(view, args, out)


class AlongAxes(Rule):
    """Each output element depends on everything along some axes of the input, and on nothing else.

    Args:
        axes: Gives the axes (counted from 0) for a node.
        per_channel: Whether further inputs hold one value per channel; else they are needed whole.
    """

    def __init__(
        self, axes: Callable[[NodeView], Sequence[int]], *, per_channel: bool = False
    ) -> None:
        self._axes = axes
        self._per_channel = per_channel

    def _held(self, view: NodeView, box: Region) -> Region:
        for axis in self._axes(view):
            box = box.with_axis(axis, (0, view.shape()[axis]))
        return box

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The box widened to whole along the axes."""
        held = self._held(view, wanted(outs))
        rest: list[Region | None] = []
        for index, shape in enumerate(view.input_shapes[1:], start=1):
            is_per_channel = self._per_channel and shape is not None
            rest.append(Region((held.bounds[1],)) if is_per_channel else view.full(index))
        return [held, *rest]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node, then crop along the axes."""
        held = self._held(view, wanted(outs))
        names = copy_node(view, args, out)
        return [
            name if box is None else out.crop(name, held, box)
            for name, box in zip(names, outs, strict=True)
        ]


class Transpose(Rule):
    """Axes change places."""

    @staticmethod
    def _perm(view: NodeView) -> list[int]:
        rank = len(view.shape())
        return list(view.attr("perm", list(range(rank))[::-1]))

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The box with axes put back."""
        box, perm = wanted(outs), self._perm(view)
        bounds = [(0, 0)] * len(perm)
        for position, axis in enumerate(perm):
            bounds[axis] = box.bounds[position]
        return [Region(tuple(bounds))]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node as it is."""
        return copy_node(view, args, out, perm=self._perm(view))


class Expand(Rule):
    """Broadcast to a constant shape."""

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The operand's part; the target shape is written anew."""
        return [broadcast_box(view.shape(), wanted(outs)), None]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node with the box's shape as target."""
        return out.node("Expand", [args[0], out.constant(int64(wanted(outs).shape))], {})


class Tile(Rule):
    """Repeat along axes; an axis that is repeated is needed whole."""

    @staticmethod
    def _held(view: NodeView, box: Region) -> Region:
        for axis, times in enumerate(as_ints(view.constant(1))):
            if times != 1:
                box = box.with_axis(axis, (0, view.output_shapes[0][axis]))
        return box

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The box, whole along repeated axes; everything where the times are not constant."""
        if view.constant(1) is None:
            return super().needs(view, outs)
        box = wanted(outs)
        for axis, times in enumerate(as_ints(view.constant(1))):
            if times != 1:
                box = box.with_axis(axis, (0, view.shape()[axis]))
        return [box, view.full(1)]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node, then crop."""
        if view.constant(1) is None:
            return super().emit(view, outs, args, out)
        box = wanted(outs)
        (name,) = copy_node(view, args, out)
        return [out.crop(name, self._held(view, box), box)]
