"""Put the taken branch of an ``If`` in its place, where its condition is known."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper

from partita.graph.constants import lift_constants
from partita.graph.mutable_graph import MutableGraph
from partita.graph.node import subgraphs
from partita.graph.stored import StoredTensors


def fold_branches(draft: MutableGraph) -> bool:
    """Replace, in place, each ``If`` with a constant condition by the nodes that it would run.

    Returns:
        Whether any was replaced.
    """
    taken = [(node, _taken_branch(node, draft)) for node in draft.nodes]
    for node, branch in taken:
        if branch is not None:
            take_branch(draft, node, branch)
    return any(branch is not None for _, branch in taken)


def take_branch(draft: MutableGraph, node: onnx.NodeProto, branch: onnx.GraphProto) -> None:
    """Put one branch of an ``If`` of the graph in its place."""
    place = next(place for place, other in enumerate(draft.nodes) if other is node)
    draft.nodes[place : place + 1] = _Inliner(node, branch, draft).inline()
    lift_constants(draft)


def list_branches(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Both branches of an ``If`` that can be written in its place; none of another node."""
    if node.op_type != "If" or node.domain:
        return []
    branches = [a.g for a in node.attribute if a.name in ("then_branch", "else_branch")]
    return [] if any(branch.sparse_initializer for branch in branches) else branches


def _taken_branch(node: onnx.NodeProto, draft: MutableGraph) -> onnx.GraphProto | None:
    if node.op_type != "If" or node.domain or node.input[0] not in draft.constants:
        return None
    condition = draft.constants[node.input[0]]
    if condition.size != 1:
        return None
    name = "then_branch" if condition.item() else "else_branch"
    branch = next((a.g for a in node.attribute if a.name == name), None)
    return None if branch is None or branch.sparse_initializer else branch


class _Inliner:
    """Writes one branch into the graph around it.

    Args:
        node: The ``If``.
        branch: Of the two that which is taken.
        draft: The graph, which gets the branch's constants.
    """

    def __init__(self, node: onnx.NodeProto, branch: onnx.GraphProto, draft: MutableGraph) -> None:
        self._node = node
        self._branch = branch
        self._draft = draft
        self._prefix = f"{next(name for name in node.output if name)}.{branch.name}."
        taken = draft.constants.keys() | draft.inputs.keys() | draft.producers().keys()
        while any(name.startswith(self._prefix) for name in taken):
            self._prefix += "."

    def inline(self) -> list[onnx.NodeProto]:
        """The branch's nodes under names of their own; its outputs under those of the ``If``."""
        branch = self._branch
        own = {name: self._prefix + name for name in _defined_names(branch)}
        stored = StoredTensors(self._draft.name, None)
        for tensor in branch.initializer:
            self._draft.constants[own[tensor.name]] = stored.read(tensor)
        nodes = [_renamed(node, own) for node in branch.node]
        for value, output in zip(branch.output, self._node.output, strict=False):
            if output:
                nodes.append(
                    helper.make_node("Identity", [own.get(value.name, value.name)], [output])
                )
        return nodes


def _defined_names(graph: onnx.GraphProto) -> set[str]:
    names = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return names | {name for node in graph.node for name in node.output if name}


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of a node that reads and writes other names, its bodies too."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    _rename(copy, names)
    return copy


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    for field in (node.input, node.output):
        for place, name in enumerate(field):
            field[place] = names.get(name, name)
    for body in subgraphs(node):
        hidden = _defined_names(body)
        inner = {old: new for old, new in names.items() if old not in hidden}
        for child in body.node:
            _rename(child, inner)
        for value in body.output:
            value.name = inner.get(value.name, value.name)
