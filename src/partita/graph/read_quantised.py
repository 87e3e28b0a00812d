"""Models that come quantised: which of their tensors are codes, noted before folding hides it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import onnx

from partita.graph.mutable_graph import Array, MutableGraph
from partita.graph.node import Node
from partita.graph.pointwise import MOVING
from partita.regions import SUM_BITS, Packing

#: Bits of the types that codes are stored in.
_BITS = {"int8": 8, "uint8": 8, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "int32": SUM_BITS}


def open_weights(draft: MutableGraph) -> bool:
    """Replace weights that are codes by what these stand for, and note them in ``draft.packings``.

    Returns:
        Whether any was replaced.
    """
    kept = []
    for node in draft.nodes:
        found = _read_weights(node, draft)
        if found is None:
            kept.append(node)
        else:
            draft.constants[node.output[0]], draft.packings[node.output[0]] = found
    changed = len(kept) < len(draft.nodes)
    draft.nodes = kept
    return changed


def _read_weights(node: onnx.NodeProto, draft: MutableGraph) -> tuple[Array, Packing] | None:
    """The values of dequantised constants, and how they are codes; None for other nodes."""
    if node.op_type != "DequantizeLinear" or node.domain or node.output[0] in draft.outputs:
        return None
    given = [draft.constants[name] for name in node.input if name in draft.constants]
    if len(given) < 2 or len(given) < len(node.input) or given[1].dtype != np.float32:
        return None
    attrs = {a.name: a.i for a in node.attribute}
    return None if attrs.get("block_size") else _read_packing(given, attrs.get("axis", 1))


def _read_packing(operands: Sequence[Array], axis: int) -> tuple[Array, Packing] | None:
    """What codes stand for, and how; None where the values do not tell the codes.

    Args:
        operands: Codes, scale, and maybe zero.
    """
    codes, scale = operands[0], operands[1]
    kind = codes.dtype.name
    if kind not in _BITS or scale.ndim > 1 or not _is_positive(scale):
        return None
    is_whole, axis = scale.size == 1, axis % max(1, codes.ndim)
    if not is_whole and scale.shape != codes.shape[axis : axis + 1]:
        return None
    zero = operands[2] if len(operands) > 2 else np.zeros(scale.shape, np.int32)
    packing, shift = _pack(kind, codes.astype(np.int32), None if is_whole else axis)
    shape = () if is_whole else scale.shape
    packing = Packing(
        packing.bits,
        packing.axis,
        np.asarray(scale, np.float32).reshape(shape),
        np.asarray(zero.astype(np.int32).reshape(shape) + shift, np.int32),
        packing.signed,
    )
    with np.errstate(all="ignore"):
        values = packing.values(codes.astype(np.int32) + shift)
        # Of scales that are 0, or next to it, the codes cannot be found again.
        return (values, packing) if np.array_equal(packing.round(values), values) else None


def _is_positive(scale: Array) -> bool:
    return bool((np.isfinite(scale) & (np.asarray(scale, np.float32) > 0)).all())


def _pack(kind: str, codes: Array, axis: int | None) -> tuple[Packing, int]:
    """The packing without its scale, and what is added to codes: those from 0 on have no sign.

    Signed codes have as many below 0 as above; where one is beyond that, all are shifted.
    """
    bits = _BITS[kind]
    nothing = np.zeros((), np.float32), np.zeros((), np.int32)
    signed = Packing(bits, axis, *nothing, signed=True)
    if kind.startswith("u"):
        return Packing(bits, axis, *nothing, signed=False), 0
    if codes.min(initial=0) >= signed.limits[0]:
        return signed, 0
    return Packing(bits, axis, *nothing, signed=False), 2 ** (bits - 1)


def find_packings(draft: MutableGraph, nodes: Sequence[Node]) -> dict[str, Packing]:
    """How the constants and activations of a normalised graph are codes, by name."""
    packings = {
        name: packing for name, packing in draft.packings.items() if name in draft.constants
    }
    makers = {name: node for node in nodes for name in node.outputs if name}
    for node in nodes:
        if node.op in MOVING and not node.domain and node.inputs[0] in makers:
            packing = packings.get(node.inputs[0])
            packings |= dict.fromkeys(filter(None, node.outputs), packing) if packing else {}
            continue
        maker = makers.get(node.inputs[0]) if node.op == "DequantizeLinear" else None
        if maker is None or maker.op != "QuantizeLinear" or node.domain or maker.domain:
            continue
        operands = [
            [draft.constants.get(n) for n in pair.inputs[1:] if n] for pair in (maker, node)
        ]
        packing = _read_pair(*operands)
        if packing is not None:
            packings[node.outputs[0]] = packing
    return packings


def _read_pair(before: Sequence[Array | None], after: Sequence[Array | None]) -> Packing | None:
    """How a quantised activation is codes, by scale and zero of its two nodes."""
    given = [operand for operand in before if operand is not None]
    same = [operand for operand in after if operand is not None]
    if not len(before) == len(after) == len(given) == len(same) >= 1:
        return None
    if any(a.size != 1 or a.dtype != b.dtype or a != b for a, b in zip(given, same, strict=True)):
        return None
    scale, zero = given[0], given[1] if len(given) > 1 else np.zeros((), np.uint8)
    if scale.dtype != np.float32 or zero.dtype.name not in ("int8", "uint8"):
        return None
    if not _is_positive(scale):
        return None
    shift = 128 if zero.dtype == np.int8 else 0
    return Packing(
        8,
        None,
        np.asarray(scale, np.float32).reshape(()),
        np.asarray(int(zero.item()) + shift, np.int32),
        signed=False,
    )


def is_for_integers(graph_packings: dict[str, Packing], constants: Collection[str]) -> bool:
    """Whether both weights and activations are codes of 8 bits at most."""
    kinds = {name in constants for name, one in graph_packings.items() if one.bits <= 8}
    return kinds == {True, False}
