"""Write operators in terms of others that need fewer inputs, or that divide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from partita.graph.mutable_graph import Info, MutableGraph


def take_types(draft: MutableGraph) -> bool:
    """Replace, in place, nodes that read a tensor for its type or shape alone.

    ``CastLike`` becomes ``Cast``, ``EyeLike`` a constant: the other tensor need not travel.

    Returns:
        Whether any was replaced.
    """
    kept, changed = [], False
    for node in draft.nodes:
        if node.op_type == "CastLike" and not node.domain:
            kind = _kind(draft, node.input[1])
            if kind:
                node.op_type = "Cast"
                node.attribute.append(helper.make_attribute("to", kind))
                del node.input[1:]
                changed = True
        elif _is_fixed_eye(node, draft):
            draft.constants[node.output[0]] = _eye(node, draft)
            changed = True
            continue
        kept.append(node)
    draft.nodes = kept
    return changed


def _kind(draft: MutableGraph, name: str) -> int:
    """The ONNX type of a tensor or constant, 0 where it is not known."""
    if name in draft.constants:
        return helper.np_dtype_to_tensor_dtype(draft.constants[name].dtype)
    return draft.infos.get(name, Info(0, None)).elem_type


def _is_fixed_eye(node: onnx.NodeProto, draft: MutableGraph) -> bool:
    if node.op_type != "EyeLike" or node.domain or node.output[0] in draft.outputs:
        return False
    return draft.shape(node.input[0]) is not None


def _eye(node: onnx.NodeProto, draft: MutableGraph) -> np.ndarray[tuple[int, ...], np.dtype]:
    attrs = {a.name: a.i for a in node.attribute}
    rows, columns = draft.shape(node.input[0]) or (0, 0)
    kind = attrs.get("dtype") or _kind(draft, node.input[0])
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    return np.eye(rows, columns, attrs.get("k", 0)).astype(dtype)


def write_range_bounds(draft: MutableGraph) -> bool:
    """Make numbers of the one-element vectors that bound a ``Range``, in place.

    The engine takes vectors where it does not know their shape beforehand, as behind an ``If``, and
    refuses them once it does.

    Returns:
        Whether there was one.
    """
    nodes: list[onnx.NodeProto] = []
    for node in draft.nodes:
        if node.op_type == "Range" and not node.domain:
            for place, name in enumerate(node.input):
                if draft.shape(name) == (1,):
                    number = f"{node.output[0]}.bound.{place}"
                    draft.constants[f"{number}.shape"] = np.zeros(0, np.int64)
                    nodes.append(helper.make_node("Reshape", [name, f"{number}.shape"], [number]))
                    node.input[place] = number
        nodes.append(node)
    changed = len(nodes) > len(draft.nodes)
    draft.nodes = nodes
    return changed


def write_training_norms(draft: MutableGraph) -> bool:
    """Write batch normalisations in training mode as means and products, in place.

    They divide by channels then, and the engine's own kernel, which writes the running mean and
    variance over those that it is given, does not run.

    Returns:
        Whether any was written.
    """
    nodes: list[onnx.NodeProto] = []
    for node in draft.nodes:
        nodes += _NormWriter(node, draft).write() if _is_training_norm(node, draft) else [node]
    changed = len(nodes) > len(draft.nodes)
    draft.nodes = nodes
    return changed


def _is_training_norm(node: onnx.NodeProto, draft: MutableGraph) -> bool:
    if node.op_type != "BatchNormalization" or node.domain or len(node.output) > 3:
        return False
    if not any(a.name == "training_mode" and a.i for a in node.attribute):
        return False
    kinds = {_kind(draft, name) for name in node.input}
    return len(draft.shape(node.input[0]) or ()) >= 2 and len(kinds) == 1


class _NormWriter:
    """Writes one batch normalisation in training mode.

    Args:
        node: The normalisation; its first input has a known shape of two axes and more.
        draft: The graph, which gets the constants.
    """

    def __init__(self, node: onnx.NodeProto, draft: MutableGraph) -> None:
        self._node = node
        self._draft = draft
        self._nodes: list[onnx.NodeProto] = []
        self._dtype = helper.tensor_dtype_to_np_dtype(_kind(draft, node.input[0]))
        self._prefix = next(name for name in node.output if name)
        shape = draft.shape(node.input[0]) or ()
        self._axes = [axis for axis in range(len(shape)) if axis != 1]
        self._channels = [1, shape[1], *[1] * (len(shape) - 2)]

    def write(self) -> list[onnx.NodeProto]:
        """The nodes, in order; the last of each output has its name."""
        data, scale, bias, mean, variance = self._node.input
        attrs = {a.name: a.f for a in self._node.attribute}
        batch_mean = self._mean(data)
        centred = self._add("Sub", [data, batch_mean])
        batch_variance = self._mean(self._add("Mul", [centred, centred]))
        epsilon = self._number(attrs.get("epsilon", 1e-5))
        deviation = self._add("Sqrt", [self._add("Add", [batch_variance, epsilon])])
        scaled = self._add("Mul", [self._add("Div", [centred, deviation]), self._spread(scale)])
        self._add("Add", [scaled, self._spread(bias)], self._node.output[0])
        momentum = attrs.get("momentum", 0.9)
        pairs = ((mean, batch_mean), (variance, batch_variance))
        for output, (before, batch) in zip(self._node.output[1:], pairs, strict=False):
            if output:
                new = self._add("Reshape", [batch, self._ints([-1])])
                terms = ((before, momentum), (new, 1 - momentum))
                parts = [self._add("Mul", [name, self._number(by)]) for name, by in terms]
                self._add("Add", parts, output)
        return self._nodes

    def _add(self, op: str, inputs: Sequence[str], output: str = "", **attrs: Any) -> str:
        name = output or self._fresh()
        self._nodes.append(helper.make_node(op, inputs, [name], name, **attrs))
        return name

    def _fresh(self) -> str:
        return f"{self._prefix}.{len(self._nodes)}.{len(self._draft.constants)}"

    def _mean(self, name: str) -> str:
        if self._draft.opset < 18:
            return self._add("ReduceMean", [name], axes=self._axes, keepdims=1)
        return self._add("ReduceMean", [name, self._ints(self._axes)], keepdims=1)

    def _spread(self, name: str) -> str:
        """A value per channel in a shape that meets the data's channels."""
        return self._add("Reshape", [name, self._ints(self._channels)])

    def _number(self, value: float) -> str:
        return self._constant(np.asarray(value, self._dtype))

    def _ints(self, values: Sequence[int]) -> str:
        return self._constant(np.asarray(values, np.int64))

    def _constant(self, array: np.ndarray[tuple[int, ...], np.dtype]) -> str:
        name = f"{self._fresh()}.constant"
        self._draft.constants[name] = array
        return name
