"""Nodes around quantised layers as the engine's integer kernels expect them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import onnx
from onnx import helper

from partita.graph.mutable_graph import Array, node_reads, rename_input
from partita.graph.pointwise import MOVING

#: Multiply codes where both operands are read right behind their dequantising nodes.
_CORES = ("Conv", "Gemm", "MatMul")

Nodes = list[onnx.NodeProto]


def suit_integer_kernels(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str],
    constants: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, ...]],
) -> Nodes:
    """The nodes in forms that the engine joins to integer kernels; what they answer is the same.

    Args:
        nodes: In topological order; some are changed.
        outputs: Names that are to be computed.
        constants: Those that are known, by name.
        shapes: Of all initializers.
    """
    kept = _drop_clips(nodes, constants, outputs)
    kept = _repeat_pairs(kept, constants)
    return _write_products(kept, outputs, shapes)


def _drop_clips(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array], outputs: Sequence[str]
) -> Nodes:
    """The nodes without those ``Clip`` and ``Relu`` that quantising does, too.

    What they cut off has the least or the largest code all the same. The engine drops them only
    where range and clip agree to the last bit, and between a layer and its quantising node they
    keep it from its integer kernel.
    """
    makers, readers = _makers(nodes), _count_readers(nodes, outputs)
    dropped: set[int] = set()
    for node in nodes:
        maker = makers.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
        if maker is None or readers[maker.output[0]] != 1:
            continue
        if is_implied(maker, node, constants):
            rename_input(node, maker.output[0], maker.input[0])
            dropped.add(id(maker))
    return [node for node in nodes if id(node) not in dropped]


def _makers(nodes: Sequence[onnx.NodeProto]) -> dict[str, onnx.NodeProto]:
    return {name: node for node in nodes for name in node.output}


def _count_readers(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> Counter[str]:
    return Counter([*outputs, *(name for node in nodes for name in node_reads(node))])


def is_implied(
    maker: onnx.NodeProto, quantise: onnx.NodeProto, constants: Mapping[str, Array]
) -> bool:
    """Whether what ``maker`` cuts off has the code of its bound anyway."""
    bounds = _bounds(maker, constants)
    scale = constants.get(quantise.input[1])
    zero = constants.get(quantise.input[2]) if len(quantise.input) > 2 else np.zeros((), np.uint8)
    if bounds is None or scale is None or zero is None or scale.size != 1:
        return False
    limits = np.iinfo(zero.dtype.name)
    low, high = (np.rint(np.float32(bound) / np.float32(scale)) + zero for bound in bounds)
    return bool(low <= limits.min and high >= limits.max)


def _bounds(node: onnx.NodeProto, constants: Mapping[str, Array]) -> tuple[float, float] | None:
    """What a node cuts its input to; None where it is no clip, or not known."""
    if node.op_type == "Relu":
        return 0.0, inf
    if node.op_type != "Clip" or node.domain:
        return None
    given = {a.name: a.f for a in node.attribute}
    bounds = [given.get("min", -inf), given.get("max", inf)]
    for place, name in enumerate(node.input[1:]):
        if name:
            if name not in constants:
                return None
            bounds[place] = float(constants[name].reshape(-1)[0])
    return bounds[0], bounds[1]


def _repeat_pairs(nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array]) -> Nodes:
    """The nodes with a quantising pair again where values were moved before they are multiplied.

    They have codes still, which the engine sees past few of the nodes that move them: a ``Flatten``
    keeps the dense layer behind it on floats.
    """
    makers = _makers(nodes)
    kept: Nodes = []
    again: dict[str, str] = {}
    for node in nodes:
        for name in node.input[:2] if _reads_codes(node, makers) else ():
            pair = _find_pair(name, makers, constants)
            if pair is not None and name not in again:
                again[name] = f"{name}.again"
                codes, operands = f"{name}.again.codes", pair.input[1:]
                kept += [
                    helper.make_node("QuantizeLinear", [name, *operands], [codes], codes),
                    helper.make_node("DequantizeLinear", [codes, *operands], [again[name]]),
                ]
                kept[-1].name = again[name]
            if pair is not None:
                rename_input(node, name, again[name])
        kept.append(node)
    return kept


def _reads_codes(node: onnx.NodeProto, makers: Mapping[str, onnx.NodeProto]) -> bool:
    """Whether a node multiplies constants that are read as codes."""
    if node.op_type not in _CORES or node.domain:
        return False
    opened = (makers.get(name) for name in node.input[:2])
    return any(one is not None and _opens_constant(one, makers) for one in opened)


def _opens_constant(node: onnx.NodeProto, makers: Mapping[str, onnx.NodeProto]) -> bool:
    return node.op_type == "DequantizeLinear" and node.input[0] not in makers


def _find_pair(
    name: str, makers: Mapping[str, onnx.NodeProto], constants: Mapping[str, Array]
) -> onnx.NodeProto | None:
    """The node that made a tensor's values of codes before they were moved; None without moves."""
    maker = makers.get(name)
    if maker is None or maker.op_type == "DequantizeLinear":
        return None
    while maker is not None and maker.op_type in MOVING and not maker.domain:
        maker = makers.get(maker.input[0])
    if maker is None or maker.op_type != "DequantizeLinear" or _opens_constant(maker, makers):
        return None
    return maker if np.size(constants.get(maker.input[1], ())) == 1 else None


def is_product(attrs: Mapping[str, Any], shape: Sequence[int]) -> bool:
    """Whether a convolution is a product of matrices, of places by channels.

    Args:
        attrs: Of the node.
        shape: Of its weights.
    """
    is_plain = attrs.get("group", 1) == 1 and attrs.get("auto_pad", "NOTSET") in _UNPADDED
    moves = {*attrs.get("strides", ()), *shape[2:]}
    return is_plain and moves <= {1} and not any(attrs.get("pads", ()))


_UNPADDED = ("NOTSET", b"NOTSET", "VALID", b"VALID")


def _write_products(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], shapes: Mapping[str, tuple[int, ...]]
) -> Nodes:
    """The nodes with products of matrices for convolutions of one place that make floats.

    The engine's convolution of codes makes codes, its product floats, too: so the sums that a
    residual is added to, or that an activation is computed of, are not rounded before.
    """
    makers, readers = _makers(nodes), _count_readers(nodes, outputs)
    rounded = {node.input[0] for node in nodes if node.op_type == "QuantizeLinear"}
    kept: Nodes = []
    for node in nodes:
        is_coded = node.op_type == "Conv" and all(
            name in makers and makers[name].op_type == "DequantizeLinear" for name in node.input[:2]
        )
        name = node.output[0] if node.output else ""
        if not is_coded or (name in rounded and readers[name] == 1):
            kept.append(node)
            continue
        places, weights = (makers[name] for name in node.input[:2])
        shape = shapes.get(weights.input[0], ())
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if shape and is_product(attrs, shape):
            kept += _product(node, places, weights, len(shape))
        else:
            kept.append(node)
    return _drop_unread(kept, outputs)


def _product(
    node: onnx.NodeProto, places: onnx.NodeProto, weights: onnx.NodeProto, rank: int
) -> Nodes:
    """A convolution of one place as a product, channels last.

    Args:
        places: Dequantises what it reads.
        weights: Dequantises its weights.
    """
    prefix = node.output[0]
    last, first = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    made: Nodes = []

    def add(op: str, inputs: Sequence[str], name: str, **attrs: Any) -> str:
        made.append(helper.make_node(op, inputs, [name], name, **attrs))
        return name

    rows = add("Transpose", [places.input[0]], f"{prefix}.rows", perm=last)
    left = add("DequantizeLinear", [rows, *places.input[1:]], f"{prefix}.left")
    flat = add("Flatten", [weights.input[0]], f"{prefix}.flat", axis=1)
    columns = add("Transpose", [flat], f"{prefix}.columns", perm=[1, 0])
    right = add("DequantizeLinear", [columns, *weights.input[1:]], f"{prefix}.right", axis=1)
    sums = add("MatMul", [left, right], f"{prefix}.sums")
    if len(node.input) > 2:
        # With an addition the engine would join the product to a dense layer on floats.
        sums = add("Sum", [sums, node.input[2]], f"{prefix}.biased")
    add("Transpose", [sums], prefix, perm=first)
    return made


def _drop_unread(nodes: Nodes, outputs: Sequence[str]) -> Nodes:
    """The nodes without those that dequantise for nobody."""
    readers = _count_readers(nodes, outputs)
    return [n for n in nodes if n.op_type != "DequantizeLinear" or readers[n.output[0]]]
