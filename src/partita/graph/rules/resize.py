"""Rules of resizing: where each output position looks in the input, for any coordinate mode.

A box is computed with the position-independent form where one exists (whole-number scales), and
otherwise by gathering the rows that each output row looks at and blending them with its weights.
Nearest positions are asked of ONNX Runtime; positions and weights of linear resizing are those that
it computes for the whole tensor, in single precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from onnx import helper

from partita.graph.evaluate import run_node
from partita.graph.node import Node
from partita.graph.rules.base import (
    Boxes,
    Emitter,
    NodeView,
    Rule,
    copy_node,
    int64,
    wanted,
)
from partita.regions import Array, Interval, Region


@dataclass(frozen=True)
class AxisMap:
    """For each output position of one axis: two input positions and the weight of the second."""

    low: Array
    high: Array
    weight: Array
    extent: int

    @property
    def is_identity(self) -> bool:
        """Whether the axis is not resized."""
        same = len(self.low) == self.extent and bool((self.low == np.arange(self.extent)).all())
        return same and not self.weight.any()

    def local(self, origin: int, span: Interval) -> AxisMap:
        """The map of output positions ``span`` into a piece that begins at ``origin``."""
        part = slice(*span)
        low, high = self.low[part] - origin, self.high[part] - origin
        return AxisMap(low, high, self.weight[part], self.extent)


def _positions(out_extent: int, extent: int, scale: np.float32, mode: str) -> Array:
    x = np.arange(out_extent, dtype=np.float32)
    half = np.float32(0.5)
    if mode == "align_corners":
        if out_extent == 1:
            return np.zeros(1, np.float32)
        return x * np.float32(extent - 1) / np.float32(out_extent - 1)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + half) / scale
    if mode == "pytorch_half_pixel" and out_extent <= 1:
        return np.zeros(out_extent, np.float32)
    if mode == "half_pixel_symmetric":
        adjust = np.float32(out_extent) / (scale * np.float32(extent))
        center = np.float32(extent) / 2
        return center * (1 - adjust) + (x + half) / scale - half
    return (x + half) / scale - half


def _coordinates(view: NodeView) -> str:
    legacy = view.node.op == "Upsample"
    return "asymmetric" if legacy else view.attr("coordinate_transformation_mode", "half_pixel")


def _linear_map(view: NodeView, axis: int, scale: np.float32) -> AxisMap:
    """Where the outputs of one axis look, and how much at the second of two neighbours."""
    extent, out_extent = view.shape()[axis], view.output_shapes[0][axis]
    x = _positions(out_extent, extent, scale, _coordinates(view))
    x = np.clip(x, 0, extent - 1)
    low = np.minimum(x.astype(np.int64), extent - 1)
    high = np.minimum(low + 1, extent - 1)
    weight = np.where(low == high, np.float32(0), x - low.astype(np.float32)).astype(np.float32)
    return AxisMap(low, np.where(weight == 0, low, high), weight, extent)


def _nearest_map(view: NodeView, axis: int, scales: Sequence[np.float32]) -> AxisMap:
    """Where the outputs of one axis look: asked of ONNX Runtime, which resizes the axis' indices.

    Which of two neighbours is nearer hangs on the last bit of a position, and so on the order and
    the fusing of the engine's own operations. Other axes are resized beside it where the node
    resizes them: alone, an axis that keeps its extent would be handed on.
    """
    extent, out_extent = view.shape()[axis], view.output_shapes[0][axis]
    pairs = zip(view.shape(), view.output_shapes[0], scales, strict=True)
    outs = [1 if before == after and scale == 1 else 2 for before, after, scale in pairs]
    outs[axis] = out_extent
    factors = np.asarray(outs, np.float32)
    factors[axis] = scales[axis]
    ramp = np.arange(extent, dtype=np.float32)
    ramp = ramp.reshape([extent if place == axis else 1 for place in range(len(outs))])
    if view.node.op == "Upsample":
        feeds, names = {"x": ramp, "scales": factors}, ["x", "scales"]
    elif view.has_input(3):
        feeds, names = {"x": ramp, "sizes": int64(outs)}, ["x", "", "", "sizes"]
    else:
        feeds, names = {"x": ramp, "scales": factors}, ["x", "", "scales"]
    attrs = {name: value for name, value in view.node.attrs.items() if name != "axes"}
    node = helper.make_node(view.node.op, names, ["y"], **attrs)
    resized = run_node(node, feeds, view.opset)
    index = np.moveaxis(resized, axis, 0).reshape(out_extent, -1)[:, 0].astype(np.int64)
    return AxisMap(index, index, np.zeros(out_extent, np.float32), extent)


def _identity_map(extent: int) -> AxisMap:
    index = np.arange(extent)
    return AxisMap(index, index, np.zeros(extent, np.float32), extent)


#: Coordinate modes in which a piece that begins elsewhere looks at the same places.
_SHIFTABLE = ("half_pixel", "asymmetric", "pytorch_half_pixel")
_MAPS: WeakKeyDictionary[Node, list[AxisMap] | None] = WeakKeyDictionary()


class Resize(Rule):
    """Nearest and linear resizing; other modes need the resized axes whole."""

    @staticmethod
    def _scales(view: NodeView) -> list[np.float32]:
        index = 1 if view.node.op == "Upsample" else 2
        given = view.constant(index)
        rank = len(view.shape())
        axes = [axis % rank for axis in view.attr("axes", list(range(rank)))]
        ratios = [
            np.float32(o) / np.float32(i)
            for o, i in zip(view.output_shapes[0], view.shape(), strict=True)
        ]
        if given is None or not given.size:
            return ratios
        for axis, scale in zip(axes, given.reshape(-1), strict=True):
            ratios[axis] = np.float32(scale)
        return ratios

    def _maps(self, view: NodeView) -> list[AxisMap] | None:
        """Where outputs look, per axis; remembered per node."""
        if view.node not in _MAPS:
            _MAPS[view.node] = self._find_maps(view)
        return _MAPS[view.node]

    def _find_maps(self, view: NodeView) -> list[AxisMap] | None:
        if view.attr("mode", "nearest") not in ("nearest", "linear"):
            return None
        if view.attr("antialias", 0) or view.attr("exclude_outside", 0):
            return None
        scales = self._scales(view)
        if view.shape() == view.output_shapes[0]:  # the engine hands it on, whatever the scales
            return [_identity_map(extent) for extent in view.shape()]
        if view.attr("mode", "nearest") == "linear":
            if _coordinates(view) == "tf_half_pixel_for_nn":
                return None  # meant for nearest: in others the engine moves axes that it keeps
            return [_linear_map(view, axis, scale) for axis, scale in enumerate(scales)]
        kept = self._kept_axes(view)
        return [
            _identity_map(view.shape()[axis]) if kept[axis] else _nearest_map(view, axis, scales)
            for axis in range(len(scales))
        ]

    @staticmethod
    def _is_known(view: NodeView) -> bool:
        """Whether each axis is resized by itself, by a factor that is known."""
        if view.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize":
            return False
        if view.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
            return False
        places = range(1, len(view.input_shapes))
        return not any(view.has_input(i) and view.constant(i) is None for i in places)

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The positions that the box looks at."""
        if not self._is_known(view):
            return super().needs(view, outs)
        maps = self._maps(view)
        padding: list[Region | None] = [None] * (len(view.input_shapes) - 1)
        if maps is None:
            return [self._identity_axes(view, wanted(outs)), *padding]
        box = wanted(outs)
        if self._is_whole(maps, box):
            return [self._identity_axes(view, box), *padding]
        spans: list[Interval] = []
        for axis_map, (start, stop) in zip(maps, box.bounds, strict=True):
            low, high = axis_map.low[start:stop], axis_map.high[start:stop]
            spans.append((int(low.min()), int(high.max()) + 1))
        return [Region(tuple(spans)), *padding]

    @staticmethod
    def _is_whole(maps: list[AxisMap], box: Region) -> bool:
        """Whether the box is whole along every resized axis, so that the node stays as it is."""
        pairs = zip(maps, box.bounds, strict=True)
        return all(each.is_identity or span == (0, len(each.low)) for each, span in pairs)

    def _kept_axes(self, view: NodeView) -> list[bool]:
        """Return, per axis, whether it is not resized at all."""
        rows = zip(self._scales(view), view.shape(), view.output_shapes[0], strict=True)
        kept = [scale == 1 and i == o for scale, i, o in rows]
        if _coordinates(view) == "tf_half_pixel_for_nn" and not all(kept):
            return [i == o == 1 for i, o in zip(view.shape(), view.output_shapes[0], strict=True)]
        return kept

    def _identity_axes(self, view: NodeView, box: Region) -> Region:
        rows = zip(self._kept_axes(view), box.bounds, view.shape(), strict=True)
        return Region(tuple(span if kept else (0, extent) for kept, span, extent in rows))

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node on whole axes, on the piece alone, or as gathers with weights."""
        if not self._is_known(view):
            return super().emit(view, outs, args, out)
        box = wanted(outs)
        maps = self._maps(view)
        if maps is None:
            return self._emit_whole(view, box, args, out)
        spans = self.needs(view, outs)[0]
        resized = [axis for axis, axis_map in enumerate(maps) if not axis_map.is_identity]
        if spans is None or not resized:
            return [args[0] if spans is None else out.crop(args[0], spans, box)]
        if self._is_whole(maps, box):
            return self._emit_whole(view, box, args, out)
        name = args[0]
        times = self._times(view, maps)
        if times is not None:
            name = self._emit_local(view, times, name, out)
            pairs = zip(spans.bounds, times, strict=True)
            held = Region(tuple((start * by, stop * by) for (start, stop), by in pairs))
            return [out.crop(name, held, box)]
        for axis in resized:
            local = maps[axis].local(spans.bounds[axis][0], box.bounds[axis])
            name = self._emit_axis(view, local, axis, name, out)
        return [name]

    def _emit_whole(
        self, view: NodeView, box: Region, args: Sequence[str], out: Emitter
    ) -> list[str]:
        """Write the node over whole resized axes and crop them."""
        rows = zip(self._kept_axes(view), box.bounds, view.output_shapes[0], strict=True)
        held = Region(tuple(span if kept else (0, extent) for kept, span, extent in rows))
        scales = np.asarray(self._scales(view), np.float32)
        if view.node.op == "Upsample":
            (name,) = copy_node(view, [args[0], out.constant(scales)], out)
        elif view.has_input(3):
            sizes = out.constant(int64(held.shape))
            (name,) = copy_node(view, [args[0], "", "", sizes], out, axes=None)
        else:
            (name,) = copy_node(view, [args[0], "", out.constant(scales)], out, axes=None)
        return [out.crop(name, held, box)]

    def _times(self, view: NodeView, maps: list[AxisMap]) -> list[int] | None:
        """By what whole number each axis grows, if that is the same at every position.

        Nearest upscaling then repeats, and linear upscaling by a power of two has weights that are
        exact in single precision wherever a piece begins.
        """
        linear = view.attr("mode", "nearest") == "linear"
        if linear and view.attr("coordinate_transformation_mode", "half_pixel") not in _SHIFTABLE:
            return None
        factors = []
        for axis_map, scale in zip(maps, self._scales(view), strict=True):
            times, rest = divmod(len(axis_map.low), axis_map.extent)
            if rest or times != scale or (linear and times & (times - 1)):
                return None
            repeats = bool((axis_map.low == np.arange(len(axis_map.low)) // times).all())
            if not repeats and not linear:
                return None
            factors.append(times)
        return factors

    @staticmethod
    def _emit_local(view: NodeView, times: list[int], name: str, out: Emitter) -> str:
        """Write the upscaling of a piece on its own."""
        scales = out.constant(np.asarray(times, np.float32))
        mode = view.attr("mode", "nearest")
        if view.opset < 10:
            return out.node("Upsample", [name, scales], {"mode": mode})[0]
        attrs = {"mode": mode}
        if mode == "nearest":
            attrs |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        else:
            coordinates = view.attr("coordinate_transformation_mode", "half_pixel")
            attrs["coordinate_transformation_mode"] = coordinates
        return out.node("Resize", [name, "", scales], attrs)[0]

    @staticmethod
    def _emit_axis(view: NodeView, axis_map: AxisMap, axis: int, name: str, out: Emitter) -> str:
        (first,) = out.node("Gather", [name, out.constant(axis_map.low)], {"axis": axis})
        if not axis_map.weight.any():
            return first
        (second,) = out.node("Gather", [name, out.constant(axis_map.high)], {"axis": axis})
        return _emit_blend((first, second), axis_map.weight, axis, view, out)


def _emit_blend(
    names: tuple[str, str], weight: Array, axis: int, view: NodeView, out: Emitter
) -> str:
    """Write ``first * (1 - weight) + second * weight`` with weights along ``axis``."""
    shape = [1] * len(view.shape())
    shape[axis] = len(weight)
    factors = ((np.float32(1) - weight), weight)
    parts = [
        out.node("Mul", [name, out.constant(factor.reshape(shape).astype(view.dtype))], {})[0]
        for name, factor in zip(names, factors, strict=True)
    ]
    return out.node("Add", parts, {})[0]
