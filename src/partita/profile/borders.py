"""Where a fragment converts tensors into the engine's own layout, and back.

Windowed layers (convolutions, pooling) run on blocks of channels; what they read is converted
where it comes from outside. Pointwise layers keep the layout only where all they read has it: a
sum whose other term comes from outside runs in the standard layout, as a pass of its own that
would else be fused into the convolution before it. What is rounded to codes and back is rounded in
the standard layout.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from partita.graph import Graph
from partita.graph.layer import Layer
from partita.profile.data import LayerProfile, Profile
from partita.regions import Region

#: Operators that ONNX Runtime runs in the blocked layout when all their inputs have it.
_PASS_ON = frozenset({"Add", "Sum", "Mul", "Concat", "Relu", "Sigmoid", "Tanh", "Clip"})
#: Of these, the ones that are fused into the convolution before them and so cost nothing there.
FUSED = frozenset({"Add", "Sum", "Mul"})
#: Bytes moved by such a pass of its own, over those that it makes.
PASSES = 3
#: Fewer channels than this are read in the standard layout even by blocked layers: ONNX Runtime's
#: blocks hold 8 channels, 16 with AVX-512.
_MIN_BLOCK = 8


@dataclass(frozen=True)
class Crossings:
    """Tensors of one fragment that cost time beyond its layers.

    Attributes:
        enter: Converted into the engine's layout.
        leave: Converted back.
        passes: Made by a pointwise pass in the standard layout, three times their bytes moved.
        rounded: Rounded on floats: read, written as bytes, read again, and written.
    """

    enter: tuple[str, ...]
    leave: tuple[str, ...]
    passes: tuple[str, ...]
    rounded: tuple[str, ...]


class CrossedBytes(NamedTuple):
    """Bytes of the tensors that :class:`Crossings` names."""

    enter: int
    leave: int
    passes: int


UNCROSSED = CrossedBytes(0, 0, 0)


def find_blocked(graph: Graph, profile: Profile | None) -> frozenset[str]:
    """The layers whose outputs the engine keeps in its own layout, as a profile saw."""
    if profile is None:
        return frozenset()
    return pass_on(graph, {n for n, layer in profile.layers.items() if layer.blocked})


def pass_on(graph: Graph, seen: Container[str]) -> frozenset[str]:
    """The layers that were seen in the engine's layout, and those that pass it on.

    The engine's names do not tell of the latter.
    """
    blocked: set[str] = set()
    for layer in graph.layers:
        makers = [graph.producer(tensor) for tensor in layer.inputs]
        passed_on = layer.kind in _PASS_ON and all(
            maker is not None and maker.name in blocked for maker in makers
        )
        if passed_on or layer.name in seen:
            blocked.add(layer.name)
    return frozenset(blocked)


def has_blocks(box: Region) -> bool:
    """Whether a tensor has enough channels for blocks of the engine's layout."""
    shape = box.shape
    return len(shape) > 2 and shape[1] >= _MIN_BLOCK


class Borders:
    """Finds the crossings of fragments, once for each set of layers.

    Args:
        blocked: Layers that run in the engine's layout where they can; see :func:`find_blocked`.
        rounding: Layers that round on floats what they make.
    """

    def __init__(
        self,
        graph: Graph,
        blocked: frozenset[str],
        rounding: frozenset[str] = frozenset(),
    ) -> None:
        self._graph = graph
        self._blocked = blocked
        self._rounding = rounding
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], Crossings] = {}

    def crossings(self, layers: tuple[str, ...], outputs: tuple[str, ...]) -> Crossings:
        """The crossings of a fragment.

        Args:
            layers: Names, in topological order.
            outputs: Tensors that go out.
        """
        key = (layers, outputs)
        crossings = self._known.get(key)
        if crossings is None:
            crossings = self._known[key] = self._find(layers, outputs)
        return crossings

    def _find(self, layers: tuple[str, ...], outputs: tuple[str, ...]) -> Crossings:
        laid: set[str] = set()
        enter: dict[str, None] = {}
        leave: dict[str, None] = {}
        passes: list[str] = []
        rounded: list[str] = []
        for layer in (self._graph.layer(name) for name in layers):
            core, others = _split_inputs(layer)
            is_rounding = layer.name in self._rounding
            if is_rounding:
                rounded += layer.outputs
            if layer.name in self._blocked and laid.issuperset(others):
                enter.update((tensor, None) for tensor in core if tensor not in laid)
                if is_rounding:
                    leave.update((tensor, None) for tensor in layer.outputs)
                else:
                    laid.update(layer.outputs)
                continue
            leave.update((tensor, None) for tensor in layer.inputs if tensor in laid)
            if layer.name not in self._blocked:
                continue
            if core:
                enter.update((tensor, None) for tensor in core if tensor not in laid)
                leave.update((tensor, None) for tensor in layer.outputs)
            if core or layer.kind in FUSED:
                passes += layer.outputs
        leave.update((tensor, None) for tensor in outputs if tensor in laid)
        return Crossings(tuple(enter), tuple(leave), tuple(passes), tuple(rounded))


def _split_inputs(layer: Layer) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a layer's core converts for itself, and what must have the layout already."""
    if layer.kind in _PASS_ON:
        return (), layer.inputs
    return layer.inputs[:1], layer.inputs[1:]


def cross_whole(graph: Graph, layers: Mapping[str, LayerProfile]) -> CrossedBytes:
    """What crosses where the whole network is one fragment, in its own numbers."""
    borders = Borders(graph, pass_on(graph, {n for n, layer in layers.items() if layer.blocked}))
    names = tuple(layer.name for layer in graph.layers)
    found = borders.crossings(names, tuple(graph.outputs))
    enter = [t for t in found.enter if has_blocks(Region.full(graph.tensors[t].shape))]
    return CrossedBytes(
        *(sum(map(graph.size_bytes, some)) for some in (enter, found.leave, found.passes))
    )
