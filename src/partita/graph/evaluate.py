"""Compute nodes whose inputs are all constants, with ONNX Runtime as the judge of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from partita.engine.session import SessionConfig, open_session
from partita.graph.mutable_graph import Array, MutableGraph, array_info, make_opsets, name_apart


def make_session(model: onnx.ModelProto, *, optimise: bool = False) -> Any:
    """A session of one thread that runs ``model``, as written unless it is to be optimised.

    Its nodes may get other names.
    """
    name_apart(model.graph)
    for value in model.graph.output:
        if not value.type.tensor_type.elem_type:
            value.ClearField("type")  # the engine finds out
    return open_session(
        model.SerializeToString(), SessionConfig(threads=1, optimise="all" if optimise else "none")
    )


def run_node(node: onnx.NodeProto, feeds: Mapping[str, Array], opset: int) -> Any:
    """The first output of one standard operator on its own."""
    inputs = [_value_info(name, array) for name, array in feeds.items()]
    outputs = [helper.make_empty_tensor_value_info(node.output[0])]
    graph = helper.make_graph([node], "node", inputs, outputs)
    model = helper.make_model(graph, ir_version=8, opset_imports=make_opsets({"": opset}))
    return make_session(model).run(None, dict(feeds))[0]


def evaluate_nodes(
    draft: MutableGraph, nodes: Sequence[onnx.NodeProto], names: Sequence[str]
) -> dict[str, Array]:
    """The values of tensors ``names``, which ``nodes`` compute from constants alone.

    What cannot be computed is left out of the answer.
    """
    if not nodes:
        return {}
    try:
        return _evaluate(draft, nodes, names)
    except Exception:  # One bad node must not keep the others from being folded.
        if len(nodes) == 1:
            return {}
    half = len(nodes) // 2
    first, second = nodes[:half], nodes[half:]
    inner = {name for node in second for name in node.input}
    computed = {name for node in first for name in node.output if name}
    values = evaluate_nodes(draft, first, [n for n in computed if n in inner or n in names])
    lost = computed - values.keys()
    rest = [node for node in second if lost.isdisjoint(node.input)]
    reached = {name for node in rest for name in node.output}
    scratch = MutableGraph(
        draft.name, [], draft.constants | values, {}, {}, draft.opset_imports, draft.ir_version
    )
    return values | evaluate_nodes(scratch, rest, [n for n in names if n in reached])


def _evaluate(
    draft: MutableGraph, nodes: Sequence[onnx.NodeProto], names: Sequence[str]
) -> dict[str, Array]:
    feeds = {n: draft.constants[n] for node in nodes for n in node.input if n in draft.constants}
    inputs = [_value_info(name, array) for name, array in feeds.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in names]
    graph = helper.make_graph(nodes, "constants", inputs, outputs)
    model = helper.make_model(
        graph, ir_version=draft.ir_version, opset_imports=make_opsets(draft.opset_imports)
    )
    values = make_session(model).run(list(names), feeds)
    pairs = zip(names, values, strict=True)
    return {name: value for name, value in pairs if isinstance(value, np.ndarray)}


def _value_info(name: str, array: Array) -> onnx.ValueInfoProto:
    info = array_info(array)
    return helper.make_tensor_value_info(name, info.elem_type, info.shape)
