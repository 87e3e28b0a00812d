"""Layers that can be computed as partial results over parts of their input, and merged afterwards.

Convolutions and matrix products are linear in their input channels; means, sums and maxima combine
over the positions they reduce. A partial leaves out the bias and the division; the merge adds in
shard order, then applies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from partita.graph.rules.base import Emitter, NodeView, copy_node, int64
from partita.graph.rules.reduce import keeps_axes, reduced_axes
from partita.regions import Region

_MEANS = ("GlobalAveragePool", "ReduceMean")
_MAXIMA = ("GlobalMaxPool", "ReduceMax")
_SUMS = ("ReduceSum",)


class PartialForm:
    """How one kind of core is computed over a box of its first input and merged.

    Attributes:
        widens_input: Whether a half-precision input must be widened before it is summed, not after:
            a sum over thousands of positions leaves half precision's range.
    """

    widens_input = False

    def sum_dtype(self, view: NodeView) -> str:
        """The type of a partial result: single precision where the core's is half.

        Half-precision sums of partials would be rounded once per shard.
        """
        return "float32" if view.dtype == "float16" else view.dtype

    def split_axes(self, view: NodeView) -> tuple[int, ...]:
        """The axes of the first input that may be divided among shards."""
        raise NotImplementedError

    def needs(self, view: NodeView, part: Region) -> list[Region | None]:
        """The box of every input for a partial over ``part`` of the first."""
        raise NotImplementedError

    def emit_partial(self, view: NodeView, part: Region, args: Sequence[str], out: Emitter) -> str:
        """Write the partial result, of the core's whole output box."""
        raise NotImplementedError

    def merge_needs(self, view: NodeView, box: Region) -> dict[int, Region]:
        """The boxes of further constants (by input index) that merging ``box`` needs."""
        return {}

    def emit_merge(
        self, view: NodeView, parts: Sequence[str], consts: dict[int, str], out: Emitter
    ) -> str:
        """Write the sum (or maximum) of partials, in order, with what the partials left out."""
        total = parts[0]
        for part in parts[1:]:
            (total,) = out.node("Add", [total, part], {})
        return total


class PartialConv(PartialForm):
    """Sum over input channels; one group only."""

    def split_axes(self, view: NodeView) -> tuple[int, ...]:
        """The channel axis, unless the convolution is grouped."""
        return (1,) if view.attr("group", 1) == 1 else ()

    def needs(self, view: NodeView, part: Region) -> list[Region | None]:
        """The input part and its slice of every filter."""
        filters = Region.full(view.shape(1)).with_axis(1, part.bounds[1])
        return [part, filters, *[None] * (len(view.input_shapes) - 2)]

    def emit_partial(self, view: NodeView, part: Region, args: Sequence[str], out: Emitter) -> str:
        """Write the convolution without bias."""
        return copy_node(view, args[:2], out, auto_pad=None)[0]

    def merge_needs(self, view: NodeView, box: Region) -> dict[int, Region]:
        """The biases of the box's channels."""
        return {2: Region((box.bounds[1],))} if view.has_input(2) else {}

    def emit_merge(
        self, view: NodeView, parts: Sequence[str], consts: dict[int, str], out: Emitter
    ) -> str:
        """Write the sum and the bias."""
        total = super().emit_merge(view, parts, consts, out)
        if 2 not in consts:
            return total
        shape = out.constant(int64([1, -1] + [1] * (len(view.shape()) - 2)))
        (bias,) = out.node("Reshape", [consts[2], shape], {})
        return out.node("Add", [total, bias], {})[0]


class PartialGemm(PartialForm):
    """Sum over the inner dimension of ``alpha A B + beta C``."""

    def split_axes(self, view: NodeView) -> tuple[int, ...]:
        """The inner axis of A."""
        return (0 if view.attr("transA", 0) else 1,)

    def needs(self, view: NodeView, part: Region) -> list[Region | None]:
        """The input part and its rows of B."""
        inner = part.bounds[self.split_axes(view)[0]]
        axis = 1 if view.attr("transB", 0) else 0
        weights = Region.full(view.shape(1)).with_axis(axis, inner)
        return [part, weights, *[None] * (len(view.input_shapes) - 2)]

    def emit_partial(self, view: NodeView, part: Region, args: Sequence[str], out: Emitter) -> str:
        """Write the product without C."""
        return copy_node(view, args[:2], out)[0]

    def merge_needs(self, view: NodeView, box: Region) -> dict[int, Region]:
        """The part of C that meets the box."""
        if not view.has_input(2):
            return {}
        shape = view.shape(2)
        tail = box.bounds[len(box.bounds) - len(shape) :]
        pairs = zip(shape, tail, strict=True)
        return {2: Region(tuple((0, 1) if extent == 1 else span for extent, span in pairs))}

    def emit_merge(
        self, view: NodeView, parts: Sequence[str], consts: dict[int, str], out: Emitter
    ) -> str:
        """Write the sum and ``beta C``."""
        total = super().emit_merge(view, parts, consts, out)
        if 2 not in consts:
            return total
        added = consts[2]
        beta = float(view.attr("beta", 1.0))
        if beta != 1.0:
            (added,) = out.node("Mul", [added, out.constant(np.asarray(beta, view.dtype))], {})
        return out.node("Add", [total, added], {})[0]


class PartialMatMul(PartialForm):
    """Sum over the inner dimension of a product with a matrix."""

    def split_axes(self, view: NodeView) -> tuple[int, ...]:
        """The last axis of the left operand; the right one must be a matrix."""
        plain = len(view.shape(1)) == 2 and len(view.shape(0)) >= 2
        return (len(view.shape(0)) - 1,) if plain else ()

    def needs(self, view: NodeView, part: Region) -> list[Region | None]:
        """The input part and its rows of the matrix."""
        return [part, Region.full(view.shape(1)).with_axis(0, part.bounds[-1])]

    def emit_partial(self, view: NodeView, part: Region, args: Sequence[str], out: Emitter) -> str:
        """Write the product."""
        return copy_node(view, args, out)[0]


class PartialReduce(PartialForm):
    """Mean, sum or maximum over axes, each shard over its own box."""

    widens_input = True

    def sum_dtype(self, view: NodeView) -> str:
        """The type of a partial result; a maximum keeps its own."""
        return view.dtype if view.node.op in _MAXIMA else super().sum_dtype(view)

    def split_axes(self, view: NodeView) -> tuple[int, ...]:
        """The reduced axes."""
        return tuple(reduced_axes(view) or ())

    def needs(self, view: NodeView, part: Region) -> list[Region | None]:
        """The input part; the axes are written anew."""
        return [part, *[None] * (len(view.input_shapes) - 1)]

    def emit_partial(self, view: NodeView, part: Region, args: Sequence[str], out: Emitter) -> str:
        """Write the sum or maximum over the part."""
        axes, keep = reduced_axes(view) or [], int(keeps_axes(view))
        if view.node.op in _MAXIMA:
            return self._emit_maximum(view, axes, args[0], out)
        return out.node("ReduceSum", [args[0], out.constant(int64(axes))], {"keepdims": keep})[0]

    @staticmethod
    def _emit_maximum(view: NodeView, axes: list[int], arg: str, out: Emitter) -> str:
        attrs = {"keepdims": int(keeps_axes(view))}
        if view.opset >= 18:
            return out.node("ReduceMax", [arg, out.constant(int64(axes))], attrs)[0]
        return out.node("ReduceMax", [arg], {**attrs, "axes": axes})[0]

    def emit_merge(
        self, view: NodeView, parts: Sequence[str], consts: dict[int, str], out: Emitter
    ) -> str:
        """Write the sum, mean or maximum of the partials."""
        if view.node.op in _MAXIMA:
            return parts[0] if len(parts) == 1 else out.node("Max", list(parts), {})[0]
        total = super().emit_merge(view, parts, consts, out)
        if view.node.op not in _MEANS:
            return total
        count = prod(view.shape()[axis] for axis in reduced_axes(view) or [])
        factor = out.constant(np.asarray(1.0 / count, view.dtype))
        return out.node("Mul", [total, factor], {})[0]


_REDUCE = PartialReduce()
PARTIAL_FORMS: dict[str, PartialForm] = {
    "Conv": PartialConv(),
    "Gemm": PartialGemm(),
    "MatMul": PartialMatMul(),
    **dict.fromkeys((*_MEANS, *_MAXIMA, *_SUMS), _REDUCE),
}
