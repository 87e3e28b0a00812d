"""Raise old models to one version of the standard operators: rules need one form of each."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from partita.graph.mutable_graph import MutableGraph
from partita.graph.node import subgraphs

#: Models older than this are converted to it; newer ones stay as they are. One version means fewer
#: forms of operators; from 18 on all reductions take their axes as an input.
TARGET_OPSET = 18
#: Operators whose older form the converter changes without saying so, and the version from which
#: on they can be converted.
_UNSOUND = {"Hardmax": 13}


def raise_opset(draft: MutableGraph) -> None:
    """Convert ``draft`` to ``TARGET_OPSET`` in place where that is possible.

    Nodes with subgraphs and operators of other domains keep a model at its own version: the
    converter does not look into them. So does an operator that the converter cannot raise.
    """
    if draft.opset >= TARGET_OPSET or not set(draft.opset_imports) <= {"", "ai.onnx.ml"}:
        return
    if any(not _is_convertible(node, draft) for node in draft.nodes):
        return
    try:
        model = onnx.shape_inference.infer_shapes(draft.to_stripped_model(), data_prop=True)
        model = onnx.version_converter.convert_version(model, TARGET_OPSET)
    except Exception:  # The converter raises RuntimeError and others, for every missing adapter.
        return
    added = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    draft.constants = added | draft.constants
    draft.nodes = list(model.graph.node)
    if draft.opset < 11:
        for node in draft.nodes:
            _keep_old_resize(node, draft)
    draft.opset_imports = draft.opset_imports | {"": TARGET_OPSET}


def _is_convertible(node: onnx.NodeProto, draft: MutableGraph) -> bool:
    if node.domain or any(subgraphs(node)) or draft.opset < _UNSOUND.get(node.op_type, 0):
        return False
    if node.op_type not in ("Resize", "Upsample") or draft.opset >= 11:
        return True
    scales = _scales(node, draft)
    # Nearest neighbours were rounded down going up and rounded up going down, axis by axis.
    return scales is not None and not (min(scales) < 1 < max(scales))


def _scales(node: onnx.NodeProto, draft: MutableGraph) -> list[float] | None:
    for attribute in node.attribute:
        if attribute.name == "scales":
            return list(attribute.floats)
    value = next((draft.constants[n] for n in node.input[1:] if n in draft.constants), None)
    return None if value is None else list(np.asarray(value, float))


def _keep_old_resize(node: onnx.NodeProto, draft: MutableGraph) -> None:
    """Write down what ``Upsample`` and ``Resize`` before opset 11 did without saying so."""
    if node.op_type != "Resize":
        return
    scales = next((draft.constants[n] for n in node.input[1:] if _has_elements(n, draft)), None)
    shrinks = scales is not None and float(np.min(scales.astype(np.float64))) < 1
    fill = {
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "ceil" if shrinks else "floor",
    }
    kept = [a for a in node.attribute if a.name not in fill]
    added = [helper.make_attribute(name, value) for name, value in fill.items()]
    fresh = helper.make_node("Resize", node.input, node.output, node.name)
    fresh.attribute.extend([*kept, *added])
    node.CopyFrom(fresh)


def _has_elements(name: str, draft: MutableGraph) -> bool:
    return name in draft.constants and draft.constants[name].size > 0
