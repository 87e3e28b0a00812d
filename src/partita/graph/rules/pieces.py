"""Rules of nodes that put pieces together or take them apart: concat, split, slice, pad, gather."""

from __future__ import annotations

from collections.abc import Sequence

from partita.graph.rules.base import (
    Boxes,
    Emitter,
    NodeView,
    Rule,
    as_ints,
    copy_node,
    int64,
    wanted,
)
from partita.regions import Interval, Region, hull_of


class Concat(Rule):
    """Each input lies at its own offset along one axis; inputs outside the box are not needed."""

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """Each input's part of the box, in its own coordinates."""
        box = wanted(outs)
        axis = int(view.attr("axis", 1)) % len(box.bounds)
        start, stop = box.bounds[axis]
        result: list[Region | None] = []
        offset = 0
        for index in range(len(view.input_shapes)):
            extent = view.shape(index)[axis]
            low, high = max(start - offset, 0), min(stop - offset, extent)
            result.append(box.with_axis(axis, (low, high)) if low < high else None)
            offset += extent
        return result

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write a concat of the inputs that take part."""
        kept = [arg for arg, need in zip(args, self.needs(view, outs), strict=True) if need]
        return kept if len(kept) == 1 else copy_node(view, kept, out)


class Split(Rule):
    """Each output is a range of the input along one axis."""

    many_outputs = True

    @staticmethod
    def _placed(view: NodeView, outs: Boxes) -> list[Region | None]:
        axis = int(view.attr("axis", 0)) % len(view.shape())
        placed: list[Region | None] = []
        offset = 0
        for box, shape in zip(outs, view.output_shapes, strict=True):
            if box is not None:
                start, stop = box.bounds[axis]
                box = box.with_axis(axis, (start + offset, stop + offset))
            placed.append(box)
            offset += shape[axis]
        return placed

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The hull of the outputs' places in the input."""
        hull = hull_of(box for box in self._placed(view, outs) if box is not None)
        return [hull, *[None] * (len(view.input_shapes) - 1)]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write one slice per needed output."""
        held = self.needs(view, outs)[0]
        return [
            "" if box is None or held is None else out.crop(args[0], held, box)
            for box in self._placed(view, outs)
        ]


def _slice_axes(view: NodeView) -> dict[int, tuple[int, int]] | None:
    """Per sliced axis the first index and the step; None when they are not known."""
    if any(
        view.has_input(i) and view.constant(i) is None for i in range(1, len(view.input_shapes))
    ):
        return None
    shape = view.shape()
    starts = as_ints(view.constant(1))
    axes = as_ints(view.constant(3)) if view.has_input(3) else list(range(len(starts)))
    steps = as_ints(view.constant(4)) if view.has_input(4) else [1] * len(starts)
    result = {}
    for axis, start, step in zip(axes, starts, steps, strict=True):
        extent = shape[axis]
        start = start + extent if start < 0 else start
        low, high = (0, extent) if step > 0 else (0, extent - 1)
        result[axis % len(shape)] = (min(max(start, low), high), step)
    return result


class Slice(Rule):
    """A strided range along some axes; a negative step needs its axis whole."""

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The elements between the first and the last that the box takes."""
        sliced = _slice_axes(view)
        if sliced is None:
            return super().needs(view, outs)
        box = wanted(outs)
        for axis, (first, step) in sliced.items():
            start, stop = box.bounds[axis]
            ends = (first + start * step, first + (stop - 1) * step)
            box = box.with_axis(axis, (min(ends), max(ends) + 1))
        return [box, *[None] * (len(view.input_shapes) - 1)]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the same steps over the local piece."""
        sliced = _slice_axes(view)
        if sliced is None:
            return super().emit(view, outs, args, out)
        strided = {axis: step for axis, (_, step) in sliced.items() if step != 1}
        if not strided:
            return [args[0]]
        big = 2**31 - 1
        starts = [0 if step > 0 else big for step in strided.values()]
        ends = [big if step > 0 else -big for step in strided.values()]
        consts = [starts, ends, list(strided), list(strided.values())]
        return out.node("Slice", [args[0], *(out.constant(int64(c)) for c in consts)], {})


class Pad(Rule):
    """Padding by a constant, an edge or a reflection; only true borders are padded."""

    @staticmethod
    def _pads(view: NodeView) -> list[tuple[int, int]] | None:
        if view.constant(1) is None or (view.has_input(3) and view.constant(3) is None):
            return None
        rank = len(view.shape())
        flat = as_ints(view.constant(1))
        axes = as_ints(view.constant(3)) if view.has_input(3) else list(range(rank))
        pads = [(0, 0)] * rank
        for position, axis in enumerate(axes):
            pads[axis % rank] = (flat[position], flat[position + len(axes)])
        return pads

    @staticmethod
    def _axis(
        extent: int, pads: tuple[int, int], interval: Interval, mode: str
    ) -> tuple[Interval, tuple[int, int], Interval]:
        """The input needed, the pads to give, and the output interval that comes out."""
        (begin, end), (start, stop) = pads, interval
        low, high = start - begin, stop - begin
        if mode == "constant":
            need = (max(0, low), min(extent, high))
            if need[0] < need[1]:
                return need, (max(0, -low), max(0, high - extent)), interval
            return (0, extent), pads, (0, extent + begin + end)
        before, after = low < 0, high > extent
        if mode == "wrap" and (before or after):
            return (0, extent), pads, (0, extent + begin + end)
        first = 0 if before else low
        last = extent if after else high
        if before:
            last = min(extent, max(last, begin + 1))
        if after:
            first = max(0, min(first, extent - end - 1))
        given = (begin if before and first == 0 else 0, end if after and last == extent else 0)
        return (first, last), given, (first + begin - given[0], last + begin + given[1])

    def _parts(
        self, view: NodeView, box: Region
    ) -> list[tuple[Interval, tuple[int, int], Interval]] | None:
        pads = self._pads(view)
        if pads is None:
            return None
        mode = view.attr("mode", "constant")
        triples = zip(view.shape(), pads, box.bounds, strict=True)
        return [self._axis(extent, pair, span, mode) for extent, pair, span in triples]

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The elements inside the box, with what an edge or reflection looks at."""
        parts = self._parts(view, wanted(outs))
        if parts is None:
            return super().needs(view, outs)
        rest = [view.full(2)] if len(view.input_shapes) > 2 else []
        box = Region(tuple(need for need, _, _ in parts))
        padding: list[Region | None] = [None] * (len(view.input_shapes) - 1 - len(rest))
        return [box, *padding[:1], *rest, *padding[1:]]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node with local pads, then crop."""
        box = wanted(outs)
        parts = self._parts(view, box)
        if parts is None:
            return super().emit(view, outs, args, out)
        flat = [pads[0] for _, pads, _ in parts] + [pads[1] for _, pads, _ in parts]
        held = Region(tuple(span for _, _, span in parts))
        if not any(flat):
            return [out.crop(args[0], held, box)]
        value = [args[2]] if view.has_input(2) else []
        (name,) = copy_node(view, [args[0], out.constant(int64(flat)), *value], out)
        return [out.crop(name, held, box)]


class Gather(Rule):
    """Constant indices (one axis or a scalar) along one axis of the data."""

    @staticmethod
    def _selected(view: NodeView, box: Region) -> tuple[int, list[int], bool] | None:
        indices = view.constant(1)
        if indices is None or indices.ndim > 1:
            return None
        axis = int(view.attr("axis", 0)) % len(view.shape())
        extent = view.shape()[axis]
        values = [index % extent for index in as_ints(indices)]
        if indices.ndim == 0:
            return axis, values, True
        start, stop = box.bounds[axis]
        return axis, values[start:stop], False

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The hull of the elements that the box's indices name."""
        box = wanted(outs)
        selected = self._selected(view, box)
        if selected is None:
            return super().needs(view, outs)
        axis, values, scalar = selected
        rest = box.bounds[axis:] if scalar else box.bounds[axis + 1 :]
        span = (min(values), max(values) + 1)
        return [Region((*box.bounds[:axis], span, *rest)), None]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node with indices into the local piece."""
        selected = self._selected(view, wanted(outs))
        if selected is None:
            return super().emit(view, outs, args, out)
        _, values, scalar = selected
        local = int64([value - min(values) for value in values])
        index = out.constant(local.reshape(()) if scalar else local)
        return copy_node(view, [args[0], index], out)
