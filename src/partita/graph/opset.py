"""Raise old models to one version of the standard operators: rules need one form of each."""

from __future__ import annotations

import onnx
from onnx import numpy_helper

from partita.graph.draft import Draft
from partita.graph.node import subgraphs

#: Models older than this are converted to it; newer ones stay as they are.
TARGET_OPSET = 18


def raise_opset(draft: Draft) -> None:
    """Convert ``draft`` to ``TARGET_OPSET`` in place where that is possible.

    Nodes with subgraphs and operators of other domains keep a model at its own version: the
    converter does not look into them. So does an operator that the converter cannot raise.
    """
    if draft.opset >= TARGET_OPSET or not set(draft.opset_imports) <= {"", "ai.onnx.ml"}:
        return
    if any(node.domain or any(subgraphs(node)) for node in draft.nodes):
        return
    try:
        model = onnx.shape_inference.infer_shapes(draft.to_stripped_model(), data_prop=True)
        model = onnx.version_converter.convert_version(model, TARGET_OPSET)
    except Exception:  # The converter raises RuntimeError and others, for every missing adapter.
        return
    draft.nodes = list(model.graph.node)
    for tensor in model.graph.initializer:
        if tensor.name not in draft.constants:
            draft.constants[tensor.name] = numpy_helper.to_array(tensor)
    draft.opset_imports = draft.opset_imports | {"": TARGET_OPSET}
