"""Find type and static shape of every activation."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import onnx
from onnx import helper

from partita.errors import ModelError
from partita.graph.evaluate import make_session
from partita.graph.mutable_graph import (
    Array,
    Info,
    MutableGraph,
    make_value_info,
    node_reads,
    value_info,
)
from partita.graph.pooling import pad_instead
from partita.graph.read import bare_line
from partita.graph.resizing import is_scaled, size_instead
from partita.graph.window import POOLS, WINDOWED

#: Operators whose output shape follows from the values of their inputs.
VALUE_SHAPED = frozenset(
    ("Compress", "If", "ImageDecoder", "Loop", "MelWeightMatrix", "NonMaxSuppression", "NonZero",
     "Scan", "StringNormalizer", "StringSplit", "Unique")
)  # fmt: skip
#: Operators whose output shape follows from values, with the places of those inputs.
SHAPE_OPERANDS = {
    "AffineGrid": (1,), "BlackmanWindow": (0,), "CenterCropPad": (1,), "Col2Im": (1,),
    "ConstantOfShape": (0,), "DFT": (1, 2), "Expand": (1,), "HammingWindow": (0,),
    "HannWindow": (0,), "MaxUnpool": (2,), "OneHot": (1,), "Pad": (1, 3), "Range": (0, 1, 2),
    "Reshape": (1,), "Resize": (1, 2, 3), "STFT": (1, 3), "Slice": (1, 2, 3, 4), "Split": (1,),
    "Squeeze": (1,), "Tile": (1,), "TopK": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}  # fmt: skip


def infer_shapes(draft: MutableGraph) -> str:
    """Set ``draft.infos`` from the operators' rules; return what was wrong, empty if nothing."""
    draft.infos = dict(draft.inputs)
    before: dict[str, Info] = {}
    fault = ""
    # Each round corrects the pools and resizes whose input the round before has found.
    while draft.infos != before:
        before = draft.infos
        fault = _infer_once(draft)
        if not any(node.op_type in POOLS or is_scaled(node) for node in draft.nodes):
            break
    return fault


def _infer_once(draft: MutableGraph) -> str:
    model = draft.to_stripped_model()
    model.graph.value_info.extend(
        make_value_info(name, info)
        for name, info in draft.measured.items()
        if name not in draft.outputs
    )
    pad_instead(model.graph.node, draft.shape)
    size_instead(model.graph, draft.shape, draft.constants)
    fault = ""
    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:
        fault = bare_line(error)
        with suppress(Exception):  # What the rules cannot say is left to one run on zeros.
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    draft.infos = {
        value.name: value_info(value) for value in (*model.graph.value_info, *model.graph.output)
    }
    draft.infos |= draft.measured
    draft.infos |= draft.inputs  # an output may be an input, handed on
    return fault


def fill_holes(draft: MutableGraph, fault: str) -> frozenset[str]:
    """Find what the operators' rules left open by running the graph once on zeros.

    What is found is kept, so that inference goes on from there (see ``MutableGraph.measured``).

    Returns:
        Tensors whose shape depends on the data, or that are no tensors (sequences), and all that is
        computed from them.

    Raises:
        ModelError: The graph cannot run with these input shapes.
    """
    moving = moving_tensors(draft)
    holes = [
        name
        for node in draft.nodes
        for name in node.output
        if name and name not in moving and not _is_static(draft, name)
    ]
    if holes:
        for name, array in _run_on_zeros(draft, holes, fault).items():
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            draft.measured[name] = Info(kind, tuple(array.shape))
        draft.infos |= draft.measured
    return moving


def refuse_empty(draft: MutableGraph) -> None:
    """Refuse shapes that leave a convolution or pooling node nothing to compute.

    Raises:
        ModelError: The input is smaller than a window.
    """
    for node in draft.nodes:
        shape = draft.shape(node.output[0])
        if node.op_type in WINDOWED and shape is not None and 0 in shape:
            raise ModelError(
                f"Model '{draft.name}' cannot run with these input shapes: the input of "
                f"{node.op_type} '{node.name or node.output[0]}' is smaller than its window.",
                subject=draft.name,
            )


def moving_tensors(draft: MutableGraph) -> frozenset[str]:
    """Tensors without a fixed shape, and all tensors that are computed from them."""
    moving: set[str] = set()
    for node in draft.nodes:
        names = {name for name in node.output if name}
        follows = not moving.isdisjoint(node_reads(node))
        if (
            follows
            or (_shape_depends_on_values(node, draft) and not _all_static(draft, names))
            or (
                any(not draft.infos.get(n, _NO_TENSOR).elem_type for n in names)
                and _is_sequence(node)
            )
        ):
            moving |= names
    return frozenset(moving)


_NO_TENSOR = Info(0, None)


def _is_sequence(node: onnx.NodeProto) -> bool:
    return "Sequence" in node.op_type or "Optional" in node.op_type


def _shape_depends_on_values(node: onnx.NodeProto, draft: MutableGraph) -> bool:
    if node.op_type in VALUE_SHAPED:
        return True
    reduces = node.op_type.startswith("Reduce")
    places = (1,) if reduces else SHAPE_OPERANDS.get(node.op_type, ())
    return any(
        place < len(node.input) and node.input[place] and node.input[place] not in draft.constants
        for place in places
    )


def _is_static(draft: MutableGraph, name: str) -> bool:
    return draft.infos.get(name, _NO_TENSOR).is_static


def _all_static(draft: MutableGraph, names: set[str]) -> bool:
    return all(_is_static(draft, name) for name in names)


def _run_on_zeros(draft: MutableGraph, names: list[str], fault: str) -> dict[str, Array]:
    outputs = [name for name in names if name not in draft.outputs]
    model = draft.to_stripped_model(outputs)
    try:
        feeds = {name: zeros(info) for name, info in draft.inputs.items()}
        feeds |= {v.name: draft.constants[v.name] for v in model.graph.input if v.name not in feeds}
        session = make_session(model)
        pairs = zip(names, session.run(names, feeds), strict=True)
        return {name: value for name, value in pairs if isinstance(value, np.ndarray)}
    except Exception as error:  # ONNX Runtime's errors share no narrower class; no memory is one.
        reason = fault or bare_line(error)
        raise ModelError(
            f"Model '{draft.name}' cannot run with these input shapes: {reason}.",
            subject=draft.name,
        ) from None


def zeros(info: Info) -> Array:
    """An array of zeros for an input."""
    return np.zeros(info.shape or (), helper.tensor_dtype_to_np_dtype(info.elem_type))
