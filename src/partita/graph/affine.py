"""Fold batch normalisation and scales and shifts per channel into the layer before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from partita.graph.mutable_graph import Array, MutableGraph

Vector = npt.NDArray[np.float64]
#: Operators that a scale and a shift per channel can be folded into.
TARGETS = frozenset(("BatchNormalization", "Conv", "ConvTranspose"))


@dataclass(frozen=True)
class Affine:
    """``y = scale * x + shift`` per channel; both of shape (channels,)."""

    scale: Vector
    shift: Vector


def fold_affine(draft: MutableGraph) -> None:
    """Fold batch normalisation, Mul, Div, Add and Sub by constants per channel, in place.

    The layer before must have this node as its only reader and must not be an output of the model,
    and what is folded must be finite: what overflows would answer otherwise than the file.
    """
    readers = draft.readers()
    producers = draft.producers()
    gone: set[int] = set()
    for node in draft.nodes:
        source = _data_input(node, draft)
        target = producers.get(source or "")
        if source is None or target is None or source in draft.outputs:
            continue
        if target.op_type not in TARGETS or target.domain or len(readers[source]) != 1:
            continue
        affine = _read_affine(node, source, draft)
        if affine is None or not _apply(target, affine, draft):
            continue
        target.output[0] = node.output[0]
        producers[node.output[0]] = target
        gone.add(id(node))
    draft.nodes = [node for node in draft.nodes if id(node) not in gone]


def _data_input(node: onnx.NodeProto, draft: MutableGraph) -> str | None:
    if node.domain:
        return None
    if node.op_type == "BatchNormalization":
        return str(node.input[0])
    if node.op_type not in ("Add", "Div", "Mul", "Sub"):
        return None
    moving = [name for name in node.input if name not in draft.constants]
    if len(moving) != 1 or (node.op_type == "Div" and node.input[0] != moving[0]):
        return None
    return str(moving[0])


def _read_affine(node: onnx.NodeProto, source: str, draft: MutableGraph) -> Affine | None:
    if node.op_type == "BatchNormalization":
        return read_batch_norm(node, draft)
    shape = draft.shape(source)
    constant = next(draft.constants[n] for n in node.input if n != source)
    value = _per_channel(constant, shape)
    if value is None:
        return None
    ones, nothing = np.ones_like(value), np.zeros_like(value)
    match node.op_type:
        case "Add":
            return Affine(ones, value)
        case "Sub":
            return Affine(ones, -value) if node.input[0] == source else Affine(-ones, value)
        case "Mul":
            return Affine(value, nothing)
    return Affine(1 / value, nothing) if np.all(value) else None


def _per_channel(constant: Array, shape: tuple[int, ...] | None) -> Vector | None:
    """A constant as one value per channel, None if it varies along other axes."""
    if shape is None or len(shape) < 2 or constant.ndim > len(shape):
        return None
    if constant.dtype.kind != "f":
        return None
    full = (1,) * (len(shape) - constant.ndim) + constant.shape
    if any(extent != 1 for axis, extent in enumerate(full) if axis != 1):
        return None
    if full[1] not in (1, shape[1]):
        return None
    return np.broadcast_to(constant.reshape(-1), (shape[1],)).astype(np.float64)


def read_batch_norm(node: onnx.NodeProto, draft: MutableGraph) -> Affine | None:
    """What a batch normalisation does at inference, None if it is not all constant."""
    if any(name not in draft.constants for name in node.input[1:5]) or any(node.output[1:]):
        return None
    attrs = {a.name: a for a in node.attribute}
    if "training_mode" in attrs and attrs["training_mode"].i:
        return None
    epsilon = attrs["epsilon"].f if "epsilon" in attrs else 1e-5
    scale, bias, mean, variance = (draft.constants[n].astype(np.float64) for n in node.input[1:5])
    factor = scale / np.sqrt(variance + epsilon)
    return Affine(factor, bias - mean * factor)


def _apply(target: onnx.NodeProto, affine: Affine, draft: MutableGraph) -> bool:
    if not _are_finite(affine.scale, affine.shift):
        return False
    if target.op_type == "BatchNormalization":
        return _apply_to_batch_norm(target, affine, draft)
    weight = draft.constants.get(target.input[1])
    old = target.input[2] if len(target.input) > 2 else ""
    if weight is None or (old and old not in draft.constants):
        return False
    channels = affine.scale.size
    before = draft.constants[old].astype(np.float64) if old else np.zeros(channels)
    scaled = _scale_weight(target, weight, affine.scale)
    shifted = (before * affine.scale + affine.shift).astype(weight.dtype)
    if not _are_finite(scaled, shifted):
        return False
    names = [_fresh(draft, f"{target.output[0]}.{part}") for part in ("weight", "bias")]
    draft.constants[names[0]], draft.constants[names[1]] = scaled, shifted
    data = target.input[0]
    del target.input[:]
    target.input.extend([data, *names])
    return True


def _scale_weight(
    target: onnx.NodeProto, weight: npt.NDArray[Any], scale: Vector
) -> npt.NDArray[Any]:
    # Scaled in the weight's own type: float64 copies of large weights would cost seconds.
    factor = scale.astype(np.float64 if weight.dtype == np.float64 else np.float32)
    if target.op_type == "Conv":
        result = np.multiply(weight, factor.reshape(-1, *(1,) * (weight.ndim - 1)))
    else:
        groups = next((a.i for a in target.attribute if a.name == "group"), 1)
        parts = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
        wide = factor.reshape(groups, 1, weight.shape[1], *(1,) * (weight.ndim - 2))
        result = np.multiply(parts, wide).reshape(weight.shape)
    scaled: npt.NDArray[Any] = result.astype(weight.dtype, copy=False)
    return scaled


def _apply_to_batch_norm(target: onnx.NodeProto, affine: Affine, draft: MutableGraph) -> bool:
    if any(name not in draft.constants for name in target.input[1:5]) or any(target.output[1:]):
        return False
    kind = draft.constants[target.input[1]].dtype
    scale, bias = (draft.constants[name].astype(np.float64) for name in target.input[1:3])
    scaled = (scale * affine.scale).astype(kind)
    shifted = (bias * affine.scale + affine.shift).astype(kind)
    if not _are_finite(scaled, shifted):
        return False
    names = [_fresh(draft, f"{target.output[0]}.{part}") for part in ("scale", "bias")]
    draft.constants[names[0]], draft.constants[names[1]] = scaled, shifted
    target.input[1], target.input[2] = names
    return True


def _are_finite(*arrays: npt.NDArray[Any]) -> bool:
    return all(np.isfinite(array).all() for array in arrays)


def _fresh(draft: MutableGraph, name: str) -> str:
    while name in draft.constants or name in draft.infos:
        name += "_"
    return name
