"""Where a fragment converts tensors into the engine's own layout, and back.

Windowed layers (convolutions, pooling) run on blocks of channels; what they read is converted
where it comes from outside. Pointwise layers keep the layout only where all they read has it: a
sum whose other term comes from outside runs in the standard layout, as a pass of its own that
would else be fused into the convolution before it. What is rounded to codes and back is rounded in
the standard layout.
"""

from __future__ import annotations

from dataclasses import dataclass

from partita.compile import FragmentWork
from partita.cost.profiled_layers import runs_on_integers
from partita.graph import Graph
from partita.graph.layer import Layer
from partita.profile import Profile

#: Operators that ONNX Runtime runs in the blocked layout when all their inputs have it.
_PASS_ON = frozenset({"Add", "Sum", "Mul", "Concat", "Relu", "Sigmoid", "Tanh", "Clip"})
#: Of these, the ones that are fused into the convolution before them and so cost nothing there.
_FUSED = frozenset({"Add", "Sum", "Mul"})


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


def find_blocked(graph: Graph, profile: Profile | None) -> frozenset[str]:
    """The layers whose outputs the engine keeps in its own layout.

    Those that the profile saw, and what passes the layout on: the engine's names do not tell.
    """
    if profile is None:
        return frozenset()
    blocked: set[str] = set()
    for layer in graph.layers:
        makers = [graph.producer(tensor) for tensor in layer.inputs]
        passed_on = layer.kind in _PASS_ON and all(
            maker is not None and maker.name in blocked for maker in makers
        )
        seen = profile.layers.get(layer.name)
        if passed_on or (seen is not None and seen.blocked):
            blocked.add(layer.name)
    return frozenset(blocked)


def find_rounding(graph: Graph, profile: Profile | None) -> frozenset[str]:
    """The layers that round on floats what they make, which the profile did not see.

    A profile of the quantised graph itself has it in its layers. Layers of their own that round
    inputs are priced as such.
    """
    if profile is None or graph.base is None or profile.model_hash == graph.hash:
        return frozenset()
    known = {layer.name for layer in graph.base.layers}
    return frozenset(
        layer.name
        for layer in graph.layers
        if layer.name in known
        and any(graph.nodes[place].op == "QuantizeLinear" for place in layer.nodes)
        and not (layer.name in profile.integer and runs_on_integers(graph, layer))
    )


class Borders:
    """Finds the crossings of fragments, once for each set of layers.

    Args:
        blocked: Layers that run in the engine's layout where they can; see :func:`find_blocked`.
        rounding: Layers that round what they make; see :func:`find_rounding`.
    """

    def __init__(self, graph: Graph, blocked: frozenset[str], rounding: frozenset[str]) -> None:
        self._graph = graph
        self._blocked = blocked
        self._rounding = rounding
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], Crossings] = {}

    def crossings(self, work: FragmentWork) -> Crossings:
        """The crossings of ``work``."""
        layers = tuple(item.layer for item in work.layers)
        outputs = tuple(tensor for tensor, _ in work.outputs)
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
            if core or layer.kind in _FUSED:
                passes += layer.outputs
        leave.update((tensor, None) for tensor in outputs if tensor in laid)
        return Crossings(tuple(enter), tuple(leave), tuple(passes), tuple(rounded))


def _split_inputs(layer: Layer) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a layer's core converts for itself, and what must have the layout already."""
    if layer.kind in _PASS_ON:
        return (), layer.inputs
    return layer.inputs[:1], layer.inputs[1:]
