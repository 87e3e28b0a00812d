"""Rules of reductions: an axis that is reduced is needed whole, the others stay apart."""

from __future__ import annotations

from collections.abc import Sequence

from partita.graph.rules.base import Boxes, Emitter, NodeView, Rule, as_ints, copy_node, wanted
from partita.regions import Region


def reduced_axes(view: NodeView) -> list[int] | None:
    """The axes that a reduction sums over; None when they are not constant."""
    rank = len(view.shape())
    if view.node.op.startswith("Global"):
        return list(range(2, rank))
    if view.node.op in ("ArgMax", "ArgMin"):
        return [int(view.attr("axis", 0)) % rank]
    if view.has_input(1) and view.constant(1) is None:
        return None
    axes = as_ints(view.constant(1)) if view.has_input(1) else as_ints(view.attr("axes", None))
    if not axes and not view.attr("noop_with_empty_axes", 0):
        axes = list(range(rank))
    return sorted(axis % rank for axis in axes)


def keeps_axes(view: NodeView) -> bool:
    """Whether reduced axes stay with extent 1."""
    return view.node.op.startswith("Global") or bool(view.attr("keepdims", 1))


class Reduce(Rule):
    """Sums, means, extremes and their kin over some axes."""

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The box, whole along the reduced axes."""
        axes = reduced_axes(view)
        if axes is None:
            return super().needs(view, outs)
        bounds = list(wanted(outs).bounds)
        for axis in axes:
            whole = (0, view.shape()[axis])
            if keeps_axes(view):
                bounds[axis] = whole
            else:
                bounds.insert(axis, whole)
        rest = [view.full(index) for index in range(1, len(view.input_shapes))]
        return [Region(tuple(bounds)), *rest]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write the node as it is."""
        if reduced_axes(view) is None:
            return super().emit(view, outs, args, out)
        return copy_node(view, args, out)
