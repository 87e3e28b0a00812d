"""Count what was trained, as papers count it."""

from __future__ import annotations

import onnx

from partita.graph.mutable_graph import MutableGraph

#: Operators whose constant operands are trained, with the place of the first.
_TRAINED = {
    "BatchNormalization": 1, "Conv": 1, "ConvTranspose": 1, "DeformConv": 1, "Einsum": 0, "GRU": 1,
    "Gather": 0, "Gemm": 0, "GroupNormalization": 1, "InstanceNormalization": 1, "LSTM": 1,
    "LayerNormalization": 1, "MatMul": 0, "PRelu": 1, "RMSNormalization": 1, "RNN": 1,
}  # fmt: skip


def count_parameters(draft: MutableGraph) -> int:
    """The number of trained elements, each constant once.

    Weights, biases, scales and shifts count, a batch normalisation's mean and variance do not; of
    other operators' constants only floating-point ones with more than one element.
    """
    trained: set[str] = set()
    for node in draft.nodes:
        trained.update(_trained_names(node, draft))
    return sum(draft.constants[name].size for name in trained)


def _trained_names(node: onnx.NodeProto, draft: MutableGraph) -> list[str]:
    first = _TRAINED.get(node.op_type)
    last = 3 if node.op_type == "BatchNormalization" else len(node.input)
    names = node.input if first is None else list(node.input)[first:last]
    arrays = ((name, draft.constants[name]) for name in names if name in draft.constants)
    return [n for n, a in arrays if a.dtype.kind in "fV" and (first is not None or a.size > 1)]
