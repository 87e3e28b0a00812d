"""What the engine's arena holds once a fragment has run: its allocator, layer after layer.

The arena of a worker (:mod:`partita.engine.session`) has one range of addresses, of whose pages
those count that were ever written: as far as pieces have lain at one time, and what lay unused
between them. Where that is not enough, ranges follow that are never joined to it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence

from partita.compile import FragmentWork, work_builder
from partita.compile.work import WorkKey
from partita.cost.amount import pieces_bytes
from partita.graph import Graph, Layer
from partita.memory import ARENA_BYTES

#: The arena's sizes are multiples of it.
_UNIT = 256
#: Of a range, what the allocator keeps beside it: the piece of each unit, by a number of 8 bytes.
_INDEX_SHARE = 8 / _UNIT
#: Of the first range, which is there before a fragment runs.
INDEX_BYTES = int(_INDEX_SHARE * ARENA_BYTES)
#: Fragments whose arenas are remembered; beyond, all are forgotten. Searches where memory is short
#: ask for the same again and again, and each takes a millisecond. Not tuned.
_MOST_KNOWN = 50_000
#: A free piece: its size, its range, and where it begins there.
_Piece = tuple[int, int, int]


def most_arena_bytes(graph: Graph) -> int:
    """No less than :func:`arena_bytes` says of any fragment."""
    return graph.remember(_most_bytes)


def _most_bytes(graph: Graph) -> int:
    """What all layers in one fragment take, as concatenations hold many tensors, or a few of the
    largest."""
    outputs = sorted(layer.output_bytes for layer in graph.layers)
    names = tuple(layer.name for layer in graph.layers)
    builder = work_builder(graph)
    whole = {tensor: builder.regions.whole(tensor) for tensor in builder.stage_outputs(names)}
    return max(3 * sum(outputs[-2:]), _held_bytes(graph, builder.stage(names, whole)))


def arena_bytes(graph: Graph, work: FragmentWork) -> int:
    """The bytes of the arena after a fragment has run, in which no other has, beside what it made.

    What it made is read where it lies. What comes in is there, too, as the engine rearranges it. A
    layer whose own nodes read one of its tensors twice, as ``x * sigmoid(x)`` does, has it beside
    its output.
    """
    known = graph.remember(_none_known)
    found = known.get(work.key)
    if found is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        made_bytes = pieces_bytes(graph, work.outputs, "float32")
        found = min(_held_bytes(graph, work) - made_bytes, most_arena_bytes(graph))
        known[work.key] = found
    return found


def _none_known(graph: Graph) -> dict[WorkKey, int]:
    """What is known of fragments: nothing yet."""
    return {}


def _held_bytes(graph: Graph, work: FragmentWork) -> int:
    forked = graph.remember(_forked_layers)
    layers = [graph.layer(item.layer) for item in work.layers]
    order = _engine_order(layers)
    last = {tensor: place for place in order for tensor in layers[place].inputs}
    kept = {tensor for tensor, _ in work.outputs}
    given = dict(work.inputs)
    arena = _Arena()
    held: dict[str, _Piece] = {}
    for place in order:
        layer = layers[place]
        for tensor in layer.inputs:
            if tensor in given:
                size_bytes = pieces_bytes(graph, ((tensor, given.pop(tensor)),), "float32")
                held[tensor] = arena.allocate(size_bytes)
        for tensor, box in work.layers[place].boxes:
            size_bytes = pieces_bytes(graph, ((tensor, box),), "float32")
            held[tensor] = arena.allocate(size_bytes)
            if layer.name in forked:
                arena.free(arena.allocate(size_bytes))
        for tensor in layer.inputs:
            if last[tensor] == place and tensor in held and tensor not in kept:
                arena.free(held.pop(tensor))
    return arena.held_bytes


def _engine_order(layers: Sequence[Layer]) -> list[int]:
    """The places of layers as the engine runs them: after what each reads, the latest of it first.

    So a branch that is made of few layers runs when its sum is due, not where it leaves.
    """
    maker = {tensor: place for place, layer in enumerate(layers) for tensor in layer.outputs}
    reads = [sorted({maker[t] for t in layer.inputs if t in maker}) for layer in layers]
    inner = {place for places in reads for place in places}
    waiting = [place for place in range(len(layers)) if place not in inner]
    entered, order = set[int](), list[int]()
    while waiting:
        place = waiting.pop()
        if place < 0:
            order.append(~place)
        elif place not in entered:
            entered.add(place)
            waiting += [~place, *reads[place]]
    return order


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
    """Best fit; pieces are cut to size; freed neighbours become one piece."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._written: list[int] = []
        self._free: list[_Piece] = []

    @property
    def held_bytes(self) -> int:
        """What was ever written of the ranges, and the index of those after the first.

        The first one's counts as the process's.
        """
        return sum(self._written) + int(_INDEX_SHARE * sum(self._sizes[1:]))

    def allocate(self, size_bytes: int) -> _Piece:
        """A piece of a size."""
        size = -(-size_bytes // _UNIT) * _UNIT
        place = bisect_left(self._free, (size, 0, 0))
        if place == len(self._free):
            self._extend(size)
            place = len(self._free) - 1
        found, number, begin = self._free.pop(place)
        if found > size:
            insort(self._free, (found - size, number, begin + size))
        self._written[number] = max(self._written[number], begin + size)
        return size, number, begin

    def _extend(self, size: int) -> None:
        """Add a range: twice the last, and again until a size has room."""
        whole = 2 * self._sizes[-1] if self._sizes else ARENA_BYTES
        while whole < size:
            whole *= 2
        self._free.append((whole, len(self._sizes), 0))
        self._sizes.append(whole)
        self._written.append(0)

    def free(self, piece: _Piece) -> None:
        """Take a piece back."""
        size, number, begin = piece
        for other in [one for one in self._free if one[1] == number]:
            if other[2] + other[0] == begin or begin + size == other[2]:
                self._free.remove(other)
                size, begin = size + other[0], min(begin, other[2])
        insort(self._free, (size, number, begin))
