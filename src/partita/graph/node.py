"""One operator of the graph, with its attributes as plain Python values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import onnx


@dataclass(frozen=True, eq=False)
class Node:
    """One operator; compared and hashed by identity.

    Attributes:
        index: Place in the graph's node list.
        op: Operator name, such as ``Conv``.
        domain: Operator domain; empty for the standard ONNX operators.
        name: Name in the file; may be empty.
        inputs: Tensor names in the operator's own order; an absent optional input is empty.
        outputs: Tensor names in the operator's own order; an absent optional output is empty.
        attrs: Attributes that the node has, as numbers, strings, lists, tensors or subgraphs.
        proto: The node as ONNX has it. Do not change it.
        captured: Tensors of the graph that subgraphs of ``If``, ``Loop`` or ``Scan`` read.
    """

    index: int
    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    proto: onnx.NodeProto = field(repr=False)
    captured: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """All tensors and constants that the node needs, each once."""
        return tuple(dict.fromkeys(n for n in (*self.inputs, *self.captured) if n))


def wrap_node(proto: onnx.NodeProto, index: int) -> Node:
    """``proto`` with its attributes converted once.

    >>> node = wrap_node(onnx.helper.make_node("Concat", ["a", "b"], ["c"], axis=1), 0)
    >>> node.op, node.inputs, dict(node.attrs)
    ('Concat', ('a', 'b'), {'axis': 1})
    """
    return Node(
        index=index,
        op=proto.op_type,
        domain="" if proto.domain == "ai.onnx" else proto.domain,
        name=proto.name,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attrs=MappingProxyType({a.name: _attribute_value(a) for a in proto.attribute}),
        proto=proto,
        captured=captured_names(proto),
    )


def captured_names(proto: onnx.NodeProto) -> tuple[str, ...]:
    """Names that the node's subgraphs take from outside themselves, in order."""
    captured: dict[str, None] = {}
    for graph in subgraphs(proto):
        known = {i.name for i in graph.input} | {t.name for t in graph.initializer}
        known |= {t.values.name for t in graph.sparse_initializer}
        for inner in graph.node:
            for name in (*inner.input, *captured_names(inner)):
                if name and name not in known:
                    captured[name] = None
            known.update(inner.output)
        captured.update({o.name: None for o in graph.output if o.name not in known})
    return tuple(captured)


def with_bodies(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield ``nodes``, each followed by those of its bodies."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from with_bodies(graph.node)


def subgraphs(proto: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the bodies that the node's attributes hold."""
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def _attribute_value(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return _as_text(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [_as_text(item) for item in value]
    return list(value) if attribute.type in _REPEATED else value


def _as_text(value: bytes) -> str | bytes:
    """Text; the bytes themselves where they are none, so that they are written as they were."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


_REPEATED = frozenset((onnx.AttributeProto.FLOATS, onnx.AttributeProto.INTS))
