"""Rules of matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from partita.graph.rules.base import Boxes, Emitter, NodeView, Rule, copy_node, wanted
from partita.graph.rules.simple import broadcast_box
from partita.regions import Interval, Region


class Gemm(Rule):
    """``alpha A B + beta C`` of two matrices, either of them transposed."""

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """Rows of A, columns of B, and the part of C."""
        box = wanted(outs)
        rows, columns = box.bounds
        inner: Interval = (0, view.shape(0)[0 if view.attr("transA", 0) else 1])
        left = (inner, rows) if view.attr("transA", 0) else (rows, inner)
        right = (columns, inner) if view.attr("transB", 0) else (inner, columns)
        result: list[Region | None] = [Region(left), Region(right)]
        if len(view.input_shapes) > 2:
            result.append(broadcast_box(view.shape(2), box) if view.has_input(2) else None)
        return result

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node as it is."""
        return copy_node(view, args, out)


class MatMul(Rule):
    """Stacked matrix product with broadcasting over the leading axes."""

    @staticmethod
    def _is_plain(view: NodeView) -> bool:
        return min(len(view.shape(0)), len(view.shape(1))) >= 2

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """Rows of the left operand and columns of the right."""
        if not self._is_plain(view):
            return super().needs(view, outs)
        box = wanted(outs)
        rank = len(box.bounds)
        result: list[Region | None] = []
        for index, kept in ((0, rank - 2), (1, rank - 1)):
            shape = view.shape(index)
            lead = broadcast_box(shape[:-2], Region(box.bounds[:-2])).bounds
            inner: Interval = (0, shape[-1] if index == 0 else shape[-2])
            pair = (box.bounds[kept], inner) if index == 0 else (inner, box.bounds[kept])
            result.append(Region((*lead, *pair)))
        return result

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node as it is."""
        if not self._is_plain(view):
            return super().emit(view, outs, args, out)
        return copy_node(view, args, out)
