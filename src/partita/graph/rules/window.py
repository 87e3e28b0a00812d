"""Rules of sliding windows: convolutions and pooling, in any number of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partita.graph.pooling import count_windows
from partita.graph.rules.base import Boxes, Emitter, NodeView, Rule, copy_node, wanted
from partita.regions import Interval, Region


@dataclass(frozen=True)
class AxisWindow:
    """One spatial axis of a windowed node.

    Attributes:
        extent: Input extent, in elements.
        out_extent: Output extent.
        begin: Pad before the first element.
        end: Pad after the last.
    """

    extent: int
    out_extent: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int


@dataclass(frozen=True)
class AxisPart:
    """How to compute an interval of one axis: input needed, pads to give, what comes out."""

    need: Interval
    pads: tuple[int, int]
    computed: Interval
    overflows: bool = False


def part_of_axis(axis: AxisWindow, interval: Interval) -> AxisPart:
    """How to compute output ``interval`` of a windowed axis, padding only at true borders.

    A window that lies wholly in the padding has no input; then the whole axis is computed. The last
    output is given what is left after its window, too: fewer elements than a stride, which add no
    output, but with which what computes a whole tensor need not cut it.
    """
    start, stop = interval
    low = start * axis.stride - axis.begin
    high = (stop - 1) * axis.stride - axis.begin + axis.dilation * (axis.kernel - 1) + 1
    need = (max(0, low), min(axis.extent, high))
    if stop == axis.out_extent and not axis.end and 0 < axis.extent - high < axis.stride:
        need = (need[0], axis.extent)
    overflows = high > axis.extent + axis.end
    if need[0] >= need[1]:
        return AxisPart((0, axis.extent), (axis.begin, axis.end), (0, axis.out_extent), overflows)
    after = axis.end if overflows else max(0, high - axis.extent)
    return AxisPart(need, (max(0, -low), after), interval, overflows)


def window_axes(view: NodeView, kernel: Sequence[int]) -> list[AxisWindow]:
    """The spatial axes of a convolution or pooling node."""
    count = len(kernel)
    strides = view.attr("strides", [1] * count)
    dilations = view.attr("dilations", [1] * count)
    pads = view.attr("pads", [0] * (2 * count))
    extents, outs = view.shape()[2:], view.output_shapes[0][2:]
    return [
        AxisWindow(
            extents[i], outs[i], kernel[i], strides[i], dilations[i], pads[i], pads[i + count]
        )
        for i in range(count)
    ]


def _pads(parts: Sequence[AxisPart]) -> list[int]:
    return [part.pads[0] for part in parts] + [part.pads[1] for part in parts]


class Pool(Rule):
    """Max, average and Lp pooling; channels stay apart."""

    @staticmethod
    def _parts(view: NodeView, box: Region) -> list[AxisPart]:
        axes = window_axes(view, view.attr("kernel_shape", []))
        return [part_of_axis(*pair) for pair in zip(axes, box.bounds[2:], strict=True)]

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The receptive field of the box."""
        box = wanted(outs)
        spatial = tuple(part.need for part in self._parts(view, box))
        return [Region((*box.bounds[:2], *spatial))]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node with local pads.

        Ceil mode stays on only where a window reaches past the padded end, so that the last
        windows, and the divisors of an average, are those of the whole tensor.
        """
        box = wanted(outs)
        parts = self._parts(view, box)
        ceil = int(any(part.overflows for part in parts))
        changes = {"pads": _pads(parts), "auto_pad": None, "ceil_mode": ceil or None}
        names = copy_node(view, args, out, **changes)
        held = Region((*box.bounds[:2], *self._made(view, parts, ceil)))
        return [out.crop(names[0], held, box), *names[1:]]

    @staticmethod
    def _made(view: NodeView, parts: Sequence[AxisPart], ceil: int) -> list[Interval]:
        axes = window_axes(view, view.attr("kernel_shape", []))
        spans = []
        for axis, part in zip(axes, parts, strict=True):
            extent, span = part.need[1] - part.need[0], axis.dilation * (axis.kernel - 1) + 1
            count = count_windows(extent, part.pads, span, axis.stride, ceil=bool(ceil))
            spans.append((part.computed[0], max(part.computed[1], part.computed[0] + count)))
        return spans


def touched_groups(channels: Interval, filters: int, groups: int) -> tuple[Interval, Interval]:
    """The output channels that a convolution computes for a range of them, and their groups.

    Within one group they are those of the range; of several groups each is computed whole.
    """
    each = filters // groups
    first, last = channels[0] // each, -(-channels[1] // each)
    if last - first <= 1:
        return channels, (first, first + 1)
    return (first * each, last * each), (first, last)


class Conv(Rule):
    """Convolution: spatial boxes with halo, and ranges of output channels that respect groups."""

    @staticmethod
    def _parts(view: NodeView, box: Region) -> list[AxisPart]:
        axes = window_axes(view, view.shape(1)[2:])
        return [part_of_axis(*pair) for pair in zip(axes, box.bounds[2:], strict=True)]

    @staticmethod
    def _channels(view: NodeView, box: Region) -> tuple[Interval, Interval, int]:
        """Output channels to compute, input channels needed, and the groups left."""
        filters, per_group = view.shape(1)[:2]
        channels, (first, last) = touched_groups(box.bounds[1], filters, view.attr("group", 1))
        return channels, (first * per_group, last * per_group), last - first

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The receptive field, the filters and the biases of the box."""
        box = wanted(outs)
        channels, needed, _ = self._channels(view, box)
        spatial = tuple(part.need for part in self._parts(view, box))
        result: list[Region | None] = [
            Region((box.bounds[0], needed, *spatial)),
            Region.full(view.shape(1)).with_axis(0, channels),
        ]
        if len(view.input_shapes) > 2:
            result.append(Region((channels,)) if view.has_input(2) else None)
        return result

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node with local pads and groups."""
        box = wanted(outs)
        parts = self._parts(view, box)
        channels, _, groups = self._channels(view, box)
        (name,) = copy_node(view, args, out, pads=_pads(parts), group=groups, auto_pad=None)
        held = Region((box.bounds[0], channels, *(part.computed for part in parts)))
        return [out.crop(name, held, box)]


class ConvTranspose(Rule):
    """Transposed convolution; output channels are split by whole groups."""

    @staticmethod
    def _axes(view: NodeView) -> list[tuple[AxisWindow, int]]:
        kernel = view.shape(1)[2:]
        axes = window_axes(view, kernel)
        return [(axis, axis.dilation * (axis.kernel - 1) + 1) for axis in axes]

    def _parts(self, view: NodeView, box: Region) -> list[AxisPart]:
        parts = []
        for (axis, reach), (start, stop) in zip(self._axes(view), box.bounds[2:], strict=True):
            first = -(-(start + axis.begin - reach + 1) // axis.stride)
            first = max(0, min(first, (start + axis.begin) // axis.stride, axis.extent - 1))
            last = min((stop - 1 + axis.begin) // axis.stride, axis.extent - 1)
            need = (first, max(first, last) + 1)
            reached = (
                need[0] * axis.stride - axis.begin,
                (need[1] - 1) * axis.stride + reach - axis.begin,
            )
            parts.append(AxisPart(need, (start - reached[0], reached[1] - stop), reached))
        return parts

    @staticmethod
    def _channels(view: NodeView, box: Region) -> tuple[Interval, Interval, Interval, int]:
        groups = int(view.attr("group", 1))
        channels, each = view.shape(1)[:2]
        (start, stop), (first, last) = touched_groups(box.bounds[1], each * groups, groups)
        needed = (first * channels // groups, last * channels // groups)
        inner = (start - first * each, stop - first * each) if last - first == 1 else (0, each)
        return (start, stop), needed, inner, last - first

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The inputs that reach into the box."""
        box = wanted(outs)
        channels, needed, inner, _ = self._channels(view, box)
        spatial = tuple(part.need for part in self._parts(view, box))
        weights = Region.full(view.shape(1)).with_axis(0, needed).with_axis(1, inner)
        result: list[Region | None] = [Region((box.bounds[0], needed, *spatial)), weights]
        if len(view.input_shapes) > 2:
            result.append(Region((channels,)) if view.has_input(2) else None)
        return result

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node with pads that crop to the box, output padding where no input reaches."""
        box = wanted(outs)
        parts = self._parts(view, box)
        channels, _, _, groups = self._channels(view, box)
        pads = [part.pads[0] for part in parts] + [max(0, part.pads[1]) for part in parts]
        beyond = [max(0, -part.pads[1]) for part in parts]
        (name,) = copy_node(
            view,
            args,
            out,
            pads=pads,
            output_padding=beyond if any(beyond) else None,
            output_shape=None,
            auto_pad=None,
            group=groups,
        )
        return [out.crop(name, box.with_axis(1, channels), box)]
