"""Fold what does not depend on the model's inputs, and drop nodes that do nothing."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper

from partita.graph.evaluate import evaluate_nodes
from partita.graph.infer import SHAPE_OPERANDS
from partita.graph.mutable_graph import Array, MutableGraph, node_reads
from partita.graph.node import captured_names, subgraphs
from partita.graph.stored import StoredTensors

#: Operators that give another answer each time.
RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike")
)  # fmt: skip
#: Operators whose answers can be larger than all that they read.
_GROWING = frozenset((*SHAPE_OPERANDS, "Einsum", "EyeLike", "MatMul", "MelWeightMatrix", "Gather"))


def lift_constants(draft: MutableGraph) -> None:
    """Turn ``Constant`` nodes into constants of the graph.

    Raises:
        ModelError: A value is damaged.
    """
    kept, stored = [], StoredTensors(draft.name, None)
    for node in draft.nodes:
        value = _constant_value(node, stored) if node.op_type == "Constant" else None
        if value is None or node.output[0] in draft.outputs:
            kept.append(node)
        else:
            draft.constants[node.output[0]] = value
    draft.nodes = kept


def _constant_value(node: onnx.NodeProto, stored: StoredTensors) -> Array | None:
    attribute = node.attribute[0]
    value = helper.get_attribute_value(attribute)
    match attribute.name:
        case "value":
            return stored.read(value)
        case "value_float" | "value_floats":
            return np.asarray(value, np.float32)
        case "value_int" | "value_ints":
            return np.asarray(value, np.int64)
    return None


def fold_shapes(draft: MutableGraph) -> bool:
    """Turn ``Shape`` and ``Size`` of static tensors into constants; return whether any was."""
    kept = []
    for node in draft.nodes:
        shape = draft.shape(node.input[0]) if node.op_type in ("Shape", "Size") else None
        if shape is None or node.domain or node.output[0] in draft.outputs:
            kept.append(node)
        elif node.op_type == "Size":
            draft.constants[node.output[0]] = np.asarray(prod(shape), np.int64)
        else:
            cut = {a.name: a.i for a in node.attribute}
            part = shape[slice(cut.get("start"), cut.get("end"))]
            draft.constants[node.output[0]] = np.asarray(part, np.int64)
    changed = len(kept) < len(draft.nodes)
    draft.nodes = kept
    return changed


def fold_constants(draft: MutableGraph) -> bool:
    """Replace nodes that read constants alone by their values; return whether any was."""
    foldable = _foldable_nodes(draft)
    if not foldable:
        return False
    folded = {id(node) for node in foldable}
    outside = {n for node in draft.nodes if id(node) not in folded for n in node_reads(node)}
    names = [n for node in foldable for n in node.output if n in outside]
    values = evaluate_nodes(draft, foldable, names)
    draft.constants.update(values)
    missing = {name for name in names if name not in values}
    before = len(draft.nodes)
    _remove_folded(draft, folded, missing)
    return len(draft.nodes) < before


def _foldable_nodes(draft: MutableGraph) -> list[onnx.NodeProto]:
    """The nodes that read constants alone, as long as their answers are within bounds.

    A node of a few bytes can ask for gigabytes: what is beyond the draft's limit is computed where
    it is needed. What a node makes of others' answers whose shapes are not known is left for the
    next round, when those are constants.
    """
    known, foldable = set(draft.constants), []
    held_bytes = sum(array.nbytes for array in draft.constants.values())
    for node in draft.nodes:
        if not _is_foldable(node, draft) or not known.issuperset(i for i in node.input if i):
            continue
        size = _answer_bytes(node, draft)
        if size is None:
            if node.op_type in _GROWING or not draft.constants.keys() >= set(
                filter(None, node.input)
            ):
                continue
            size = 0
        if held_bytes + size > draft.limit_bytes:
            continue
        held_bytes += size
        foldable.append(node)
        known.update(n for n in node.output if n)
    return foldable


def _answer_bytes(node: onnx.NodeProto, draft: MutableGraph) -> int | None:
    """The size of all outputs of a node; None where it is not known."""
    total = 0
    for name in filter(None, node.output):
        info = draft.infos.get(name)
        if info is None or not info.is_static:
            return None
        total += prod(info.shape or ()) * helper.tensor_dtype_to_np_dtype(info.elem_type).itemsize
    return total


def fold_empty(draft: MutableGraph) -> bool:
    """Turn tensors without elements into constants: nothing is left to compute or to send.

    Returns:
        Whether any was.
    """
    kept, changed, readers = [], False, draft.readers()
    for node in draft.nodes:
        empty = [n for n in node.output if n in readers and 0 in (draft.shape(n) or ())]
        if not empty or not draft.outputs.keys().isdisjoint(empty):
            kept.append(node)
            continue
        changed = True
        for name in empty:
            info = draft.infos[name]
            dtype = helper.tensor_dtype_to_np_dtype(info.elem_type)
            draft.constants[name] = np.empty(info.shape or (), dtype)
        if len(empty) < sum(map(bool, node.output)):  # under a name that nobody reads
            renamed = {name: f"{name}.empty" for name in empty}
            outputs = [renamed.get(name, name) for name in node.output]
            node.output[:] = outputs
            draft.infos |= {new: draft.infos[name] for name, new in renamed.items()}
            kept.append(node)
    draft.nodes = kept
    return changed


def _remove_folded(draft: MutableGraph, folded: set[int], missing: set[str]) -> None:
    kept = []
    for node in reversed(draft.nodes):
        if id(node) in folded and missing.isdisjoint(node.output):
            continue
        if id(node) in folded:
            missing.update(node.input)
        kept.append(node)
    draft.nodes = kept[::-1]


def _is_foldable(node: onnx.NodeProto, draft: MutableGraph) -> bool:
    if node.op_type in RANDOM or any(subgraphs(node)):
        return False
    if not draft.outputs.keys().isdisjoint(node.output):
        return False
    return not (node.op_type == "Dropout" and is_training(node, draft))


def drop_idle(draft: MutableGraph) -> bool:
    """Remove nodes whose output is their first input; return whether any was."""
    captured = {name for node in draft.nodes for name in captured_names(node)}
    rename: dict[str, str] = {}
    kept = []
    for node in draft.nodes:
        for place, name in enumerate(node.input):
            if name in rename:
                node.input[place] = rename[name]
        output = node.output[0]
        if _is_idle(node, draft) and output not in draft.outputs and output not in captured:
            rename[output] = node.input[0]
        else:
            kept.append(node)
    draft.nodes = kept
    return _drop_idle_outputs(draft, captured) or bool(rename)


def _drop_idle_outputs(draft: MutableGraph, captured: set[str]) -> bool:
    """Remove idle nodes that write a graph output: their producer takes over the output's name."""
    changed = False
    for node in list(draft.nodes):
        if not (node.output[0] in draft.outputs and _is_idle(node, draft)):
            continue
        old, new = node.input[0], node.output[0]
        producer = draft.producers().get(old)
        if producer is None or old in draft.outputs or old in captured:
            continue
        draft.nodes = [other for other in draft.nodes if other is not node]
        for other in draft.nodes:
            _rename(other, old, new)
        draft.infos[new] = draft.infos.get(old, draft.infos[new])
        changed = True
    return changed


def _rename(node: onnx.NodeProto, old: str, new: str) -> None:
    for names in (node.input, node.output):
        for place, name in enumerate(names):
            if name == old:
                names[place] = new


def _is_idle(node: onnx.NodeProto, draft: MutableGraph) -> bool:
    if node.domain or not node.input:
        return False
    attrs = {a.name: a for a in node.attribute}
    match node.op_type:
        case "Identity":
            return True
        case "Dropout":
            return not is_training(node, draft) and not any(node.output[1:])
        case "Cast":
            info = draft.infos.get(node.input[0])
            return info is not None and info.elem_type == attrs["to"].i != TensorProto.UNDEFINED
        case "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Expand" | "Tile":
            return _keeps_shape(node, draft)
        case "Concat" | "Sum" | "Mean" | "Max" | "Min":
            return len(node.input) == 1
        case "Transpose":
            rank = len(draft.shape(node.input[0]) or ())
            return "perm" in attrs and list(attrs["perm"].ints) == list(range(rank))
    return False


def is_training(node: onnx.NodeProto, draft: MutableGraph) -> bool:
    """Whether a dropout node drops anything: its mode is an input that may be true."""
    if len(node.input) < 3 or not node.input[2]:
        return False
    mode = draft.constants.get(node.input[2])
    return mode is None or bool(mode)


def _keeps_shape(node: onnx.NodeProto, draft: MutableGraph) -> bool:
    before, after = draft.shape(node.input[0]), draft.shape(node.output[0])
    return before is not None and before == after
