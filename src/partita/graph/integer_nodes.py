"""Nodes around quantised layers as the engine's integer kernels expect them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf

import numpy as np
import onnx

from partita.graph.mutable_graph import Array, rename_input


def drop_clips(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array], outputs: Sequence[str]
) -> list[onnx.NodeProto]:
    """The nodes without those ``Clip`` and ``Relu`` that quantising does, too.

    What they cut off has the least or the largest code all the same. The engine drops them only
    where range and clip agree to the last bit, and between a layer and its quantising node they
    keep it from its integer kernel.

    Args:
        nodes: In topological order; those that read past a dropped one are changed.
        constants: Those that are known, by name.
        outputs: Names that are not to be dropped.
    """
    makers = {name: node for node in nodes for name in node.output}
    readers = Counter(name for node in nodes for name in node.input)
    readers.update(outputs)
    dropped: set[int] = set()
    for node in nodes:
        maker = makers.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
        if maker is None or readers[maker.output[0]] != 1:
            continue
        if _is_implied(maker, node, constants):
            rename_input(node, maker.output[0], maker.input[0])
            dropped.add(id(maker))
    return [node for node in nodes if id(node) not in dropped]


def _is_implied(
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
