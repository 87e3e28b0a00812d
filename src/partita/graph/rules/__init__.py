"""Region rules: one per operator, and the barrier for all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from partita.graph.node import Node
from partita.graph.pointwise import POINTWISE
from partita.graph.rules.base import Barrier, Boxes, Emitter, NodeView, Rule, Shape
from partita.graph.rules.matrix import Gemm, MatMul
from partita.graph.rules.partial import PARTIAL_FORMS, PartialForm
from partita.graph.rules.pieces import Concat, Gather, Pad, Slice, Split
from partita.graph.rules.reduce import Reduce
from partita.graph.rules.resize import Resize
from partita.graph.rules.shapes import DepthToSpace, Reshape, SpaceToDepth
from partita.graph.rules.simple import (
    AlongAxes,
    Expand,
    FirstOnly,
    PerChannel,
    Pointwise,
    Quantise,
    Tile,
    Transpose,
)
from partita.graph.rules.window import Conv, ConvTranspose, Pool

__all__ = [
    "PARTIAL_FORMS",
    "Boxes",
    "Emitter",
    "NodeView",
    "PartialForm",
    "Rule",
    "rule_of",
]


def _spatial(view: NodeView) -> Sequence[int]:
    return range(2, len(view.shape()))


def _channels(view: NodeView) -> Sequence[int]:
    return (1,)


def _one_axis(view: NodeView) -> Sequence[int]:
    return (int(view.attr("axis", -1)) % len(view.shape()),)


def _from_axis(view: NodeView) -> Sequence[int]:
    return range(int(view.attr("axis", -1)) % len(view.shape()), len(view.shape()))


def _coerced(view: NodeView) -> Sequence[int]:
    return range(int(view.attr("axis", 1)) % len(view.shape()), len(view.shape()))


def _from_channels(view: NodeView) -> Sequence[int]:
    return range(1, len(view.shape()))


def _listed(view: NodeView) -> Sequence[int]:
    return [int(axis) % len(view.shape()) for axis in view.attr("axes", [0, 2, 3])]


_POOL, _REDUCE, _RESHAPE, _SOFTMAX = Pool(), Reduce(), Reshape(), AlongAxes(_one_axis)
_REDUCTIONS = (
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "ArgMax", "ArgMin",
    "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool",
)  # fmt: skip
_RULES: dict[str, Rule] = {
    **dict.fromkeys(POINTWISE, Pointwise()),
    "Clip": FirstOnly(),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), Quantise()),
    "BatchNormalization": PerChannel(),
    "Conv": Conv(),
    "ConvTranspose": ConvTranspose(),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _POOL),
    "Concat": Concat(),
    "Split": Split(),
    "Slice": Slice(),
    "Pad": Pad(),
    "Gather": Gather(),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _RESHAPE),
    "Transpose": Transpose(),
    "Expand": Expand(),
    "Tile": Tile(),
    **dict.fromkeys(("Resize", "Upsample"), Resize()),
    "DepthToSpace": DepthToSpace(),
    "SpaceToDepth": SpaceToDepth(),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), _SOFTMAX),
    "LRN": AlongAxes(_channels),
    "InstanceNormalization": AlongAxes(_spatial, per_channel=True),
    "GroupNormalization": AlongAxes(_from_channels),
    "LayerNormalization": AlongAxes(_from_axis),
    "MeanVarianceNormalization": AlongAxes(_listed),
    **dict.fromkeys(_REDUCTIONS, _REDUCE),
    "Gemm": Gemm(),
    "MatMul": MatMul(),
}
_BARRIER = Barrier()


#: Operators whose old form keeps in attributes what the rule looks for in inputs.
_OLD_FORMS = {"Slice": "starts", "Pad": "pads", "Upsample": "scales"}
_OLD_SOFTMAX = AlongAxes(_coerced)


def rule_of(node: Node, opset: int, shapes: Iterable[Shape] = ()) -> Rule:
    """The region rule of a node; the barrier where none is known or a shape depends on the data.

    Args:
        opset: Version of the standard operators; before 13 softmax runs over all axes from its own.
    """
    if any(min(shape, default=0) < 0 for shape in shapes):
        return _BARRIER
    if node.domain or _OLD_FORMS.get(node.op) in node.attrs:
        return _BARRIER
    if node.op == "Resize" and opset < 11:
        return _BARRIER  # its scales stand in another place
    rule = _RULES.get(node.op, _BARRIER)
    if any(node.outputs[1:]) and not rule.many_outputs:
        return _BARRIER  # such as a pool's indices, which count the elements of the whole input
    if opset < 13 and node.op in ("Softmax", "LogSoftmax", "Hardmax"):
        return _OLD_SOFTMAX
    return rule
