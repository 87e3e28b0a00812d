"""Quantised networks: what their weights take, and how they come to run on integer kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from partita.graph.layer import Layer
from partita.graph.stored import EXTERNAL_BYTES
from partita.regions import Packing, packed_bytes

if TYPE_CHECKING:
    from partita.graph.graph import Graph

#: Bytes of a scale and a zero.
_STEP_BYTES = 8
#: Bits of the widest codes that are packed; wider ones are sums, and travel as values.
MOST_PACKED = 8


def with_kernels(graph: Graph, *, integer: bool) -> Graph:
    """The same network, whose quantised layers run on the engine's integer kernels, or on floats.

    On integer kernels weights take a byte each in memory, those of nodes that have no such kernel
    four, and answers differ from those of the float kernels where a value lies between two steps.
    """
    changed = replace(graph, integer=integer)
    layers = (
        replace(layer, weight_bytes=sum(_loaded_bytes(changed, n) for n in _reads(graph, layer)))
        for layer in graph.layers
    )
    return replace(changed, layers=tuple(layers))


def stored_shares(graph: Graph) -> dict[str, float]:
    """By layer, its weights' bytes as they are stored over those once loaded.

    Layers without packed weights are left out.
    """
    shares: dict[str, float] = {}
    for layer in graph.layers if graph.packings else ():
        stored = sum(_stored_bytes(graph, name) for name in _reads(graph, layer))
        if stored != layer.weight_bytes:
            shares[layer.name] = stored / layer.weight_bytes
    return shares


def stored_bytes(graph: Graph) -> int:
    """Bytes of all constants as they are stored, each once: packed ones by codes and steps."""
    return sum(_stored_bytes(graph, name) for name in graph.constants)


def is_packed(graph: Graph, name: str) -> bool:
    """Whether a constant is stored as packed codes: it is quantised, and large enough."""
    packing = graph.packings.get(name)
    if packing is None or packing.bits > MOST_PACKED:
        return False
    return graph.constants.spec(name).nbytes >= EXTERNAL_BYTES


def _reads(graph: Graph, layer: Layer) -> dict[str, None]:
    nodes = (graph.nodes[place] for place in layer.nodes)
    return {name: None for node in nodes for name in node.reads if name in graph.constants}


def _loaded_bytes(graph: Graph, name: str) -> int:
    array = graph.constants.spec(name)
    return (
        array.size * _code_bytes(graph.packings[name])
        if name in graph.code_constants
        else array.nbytes
    )


def _code_bytes(packing: Packing) -> int:
    return 1 if packing.bits <= MOST_PACKED else packing.bits // 8


def _stored_bytes(graph: Graph, name: str) -> int:
    array = graph.constants.spec(name)
    if not is_packed(graph, name):
        return _loaded_bytes(graph, name)
    packing = graph.packings[name]
    return packed_bytes(array.size, packing.bits) + _STEP_BYTES * packing.scale.size
