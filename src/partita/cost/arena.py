"""What the engine's arena holds once a fragment has run: its allocator, layer after layer.

ONNX Runtime's arena, where it grows as requested, takes a region from the system whenever no free
piece is large enough; it never joins two regions and gives none back. So it holds more than lies in
it at one time: a region is of no use to a tensor that is larger than all before.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter

from partita.compile import FragmentWork, work_builder
from partita.cost.amount import pieces_bytes
from partita.graph import Graph

#: The arena's sizes are multiples of it.
_UNIT = 256
#: A free piece: its size, its region, and where it begins there.
_Piece = tuple[int, int, int]


def most_arena_bytes(graph: Graph) -> int:
    """No less than :func:`arena_bytes` says of any fragment beyond a copy of what it makes."""
    return graph.remember(_most_bytes)


def _most_bytes(graph: Graph) -> int:
    """What all layers in one fragment take, as concatenations hold many tensors, or a few of the
    largest."""
    outputs = sorted(layer.output_bytes for layer in graph.layers)
    names = tuple(layer.name for layer in graph.layers)
    builder = work_builder(graph)
    whole = {tensor: builder.regions.whole(tensor) for tensor in builder.stage_outputs(names)}
    return max(3 * sum(outputs[-2:]), _reserved_bytes(graph, builder.stage(names, whole)))


def arena_bytes(graph: Graph, work: FragmentWork) -> int:
    """The bytes of the arena after a fragment has run, in which no other has.

    A layer whose own nodes read one of its tensors twice, as ``x * sigmoid(x)`` does, has it beside
    its output.
    """
    made_bytes = pieces_bytes(graph, work.outputs, "float32")
    return min(_reserved_bytes(graph, work), most_arena_bytes(graph) + made_bytes)


def _reserved_bytes(graph: Graph, work: FragmentWork) -> int:
    forked = graph.remember(_forked_layers)
    layers = [graph.layer(item.layer) for item in work.layers]
    last = {tensor: place for place, layer in enumerate(layers) for tensor in layer.inputs}
    kept = {tensor for tensor, _ in work.outputs}
    arena = _Arena()
    held: dict[str, _Piece] = {}
    for place, (layer, item) in enumerate(zip(layers, work.layers, strict=True)):
        for tensor, box in item.boxes:
            size_bytes = pieces_bytes(graph, ((tensor, box),), "float32")
            held[tensor] = arena.allocate(size_bytes)
            if layer.name in forked:
                arena.free(arena.allocate(size_bytes))
        for tensor in layer.inputs:
            if last[tensor] == place and tensor in held and tensor not in kept:
                arena.free(held.pop(tensor))
    return arena.reserved_bytes


def _forked_layers(graph: Graph) -> frozenset[str]:
    """The layers of which a node's output is read twice by others of the layer."""
    forked = set()
    for layer in graph.layers:
        nodes = [graph.nodes[number] for number in layer.nodes]
        reads = Counter(name for node in nodes for name in node.inputs)
        if any(reads[name] > 1 for node in nodes for name in node.outputs):
            forked.add(layer.name)
    return frozenset(forked)


class _Arena:
    """Best fit; a piece of at least twice the size is cut; freed neighbours become one piece.

    Attributes:
        reserved_bytes: Of all regions.
    """

    def __init__(self) -> None:
        self.reserved_bytes = 0
        self._regions = 0
        self._free: list[_Piece] = []

    def allocate(self, size_bytes: int) -> _Piece:
        """A piece of at least a size."""
        size = -(-size_bytes // _UNIT) * _UNIT
        place = bisect_left(self._free, (size, 0, 0))
        if place == len(self._free):
            self.reserved_bytes += size
            self._regions += 1
            return size, self._regions, 0
        found, region, begin = self._free.pop(place)
        if found < 2 * size:
            return found, region, begin
        insort(self._free, (found - size, region, begin + size))
        return size, region, begin

    def free(self, piece: _Piece) -> None:
        """Take a piece back."""
        size, region, begin = piece
        for other in [one for one in self._free if one[1] == region]:
            if other[2] + other[0] == begin or begin + size == other[2]:
                self._free.remove(other)
                size, begin = size + other[0], min(begin, other[2])
        insort(self._free, (size, region, begin))
