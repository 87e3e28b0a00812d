"""From a graph and a table of bits to a graph: a pure function.

Weights stay constants, of the values that their codes stand for, and what a layer makes is rounded
by quantising nodes that follow it. So region rules, slicing, fusing and layout see an ordinary
graph. ``Graph.packings`` says of every tensor that is quantised how its values are codes.

ONNX Runtime's own quantiser rewrites a file by settings for the whole of it, 8 bits wide, and knows
no layers: it can neither take bits from a plan nor leave a graph's layers as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import onnx
from onnx import helper

from partita.graph import Graph, Layer
from partita.graph.arrays import Arrays, ArraySpec
from partita.graph.fuse import Wiring
from partita.graph.layers import make_layers
from partita.graph.mutable_graph import Array
from partita.graph.node import Node, wrap_node
from partita.program import TensorSpec
from partita.quantisation.bias import check_means, find_bias, shift_of
from partita.quantisation.bits import check_bits, find_weights, is_moving, made_floats
from partita.quantisation.clipping import made_coder
from partita.quantisation.weights import WeightRanges
from partita.regions import SUM_BITS, LayerBits, Packing

#: Of the codes of activations, whatever their width: narrower ones are clipped.
_CODE_TYPE, _CODE_BITS = "uint8", 8
#: Steps of its sums that a bias may have: half of what an integer of ``SUM_BITS`` holds.
_MOST_STEPS = 2.0 ** (SUM_BITS - 2)
#: The least step of sums: products of steps are not to vanish.
_LEAST_STEP = 2.0**-100


def quantize(graph: Graph, bits: Mapping[str, LayerBits]) -> Graph:
    """A graph that computes with as many bits as a table says; without bits the graph itself.

    Weights are those of a layer's core. Where the table knows means of what it reads, its bias
    makes up for what they shift. A bias that follows on quantised inputs and weights is rounded to
    the steps of their products, as integer kernels hold it. An input of the network is
    rounded by a layer of its own, which bears its name with ``.quantize`` behind.

    Args:
        graph: A quantised one is quantised anew, from the one that it was made of.
        bits: By the names of layers, and of inputs of the network.

    Raises:
        PlanError: The table does not fit the graph, or weights are not finite.
    """
    graph = graph.base or graph
    if not any(entry.weight or entry.activation for entry in bits.values()):
        return graph
    check_bits(graph, bits)
    return _Quantizer(graph, bits).make()


def pack_activations(entry: LayerBits) -> Packing | None:
    """How what a layer makes is codes; None where it is left alone."""
    if entry.activation is None:
        return None
    coder = made_coder(entry.activation, exact_sums=entry.exact_sums)
    return coder.pack(np.array(entry.low), np.array(entry.high))


@dataclass
class _Draft:
    """Nodes of the graph to be, the places of each layer's, and the layers' names."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    groups: list[tuple[int, ...]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, name: str, nodes: list[onnx.NodeProto]) -> None:
        """Add a layer."""
        start = len(self.nodes)
        self.nodes += nodes
        self.groups.append(tuple(range(start, len(self.nodes))))
        self.names.append(name)


class _Quantizer:
    """One graph on its way to a quantised one."""

    def __init__(self, graph: Graph, bits: Mapping[str, LayerBits]) -> None:
        self._graph = graph
        self._bits = bits
        self._constants = Arrays(graph.constants)
        self._tensors: dict[str, TensorSpec] = dict(graph.tensors)
        self._packings: dict[str, Packing] = {}
        self._draft = _Draft()
        self._taken = {*graph.constants, *graph.tensors, *(layer.name for layer in graph.layers)}
        self._readers: dict[str, int] = {}
        for node in graph.nodes:
            for name in node.reads:
                self._readers[name] = self._readers.get(name, 0) + 1

    def make(self) -> Graph:
        """The quantised graph."""
        rounded = self._round_inputs()
        for layer in self._graph.layers:
            self._add_layer(layer, rounded)
        wiring = self._wire()
        layers = make_layers(
            wiring, self._draft.groups, self._constants, self._tensors, self._graph.opset
        )
        named = zip(layers, self._draft.names, strict=True)
        return replace(
            self._graph,
            nodes=wiring.nodes,
            constants=self._constants,
            tensors=self._tensors,
            layers=tuple(replace(layer, name=name) for layer, name in named),
            packings=self._packings,
            bits=dict(self._bits),
            base=self._graph,
            integer=False,
        )

    def _wire(self) -> Wiring:
        nodes = tuple(wrap_node(node, place) for place, node in enumerate(self._draft.nodes))
        readers: dict[str, list[int]] = {}
        for node in nodes:
            for name in node.reads:
                readers.setdefault(name, []).append(node.index)
        self._constants = self._constants.only(readers)
        specs = {name: self._constants.spec(name) for name in self._constants}
        shapes = {name: spec.shape for name, spec in specs.items()}
        shapes |= {name: spec.shape for name, spec in self._tensors.items()}
        return Wiring(
            nodes=nodes,
            readers={name: tuple(places) for name, places in readers.items()},
            outputs=frozenset(self._graph.outputs),
            inputs=self._graph.inputs,
            constants={name: spec.size for name, spec in specs.items()},
            shape_of=shapes.__getitem__,
        )

    def _fresh(self, name: str) -> str:
        """A name that nothing has yet: ``name``, or that with a number."""
        fresh, count = name, 1
        while fresh in self._taken:
            count += 1
            fresh = f"{name}{count}"
        self._taken.add(fresh)
        return fresh

    def _round_inputs(self) -> dict[str, str]:
        """Layers that round inputs; what is read in the place of these."""
        rounded = {}
        for tensor in self._graph.inputs:
            packing = pack_activations(self._bits.get(tensor, LayerBits()))
            if packing is None:
                continue
            target = rounded[tensor] = self._fresh(f"{tensor}.quantized")
            self._describe(target, tensor)
            nodes = self._round(tensor, target, packing)
            self._draft.add(self._fresh(f"{tensor}.quantize"), nodes)
        return rounded

    def _round(self, source: str, target: str, packing: Packing) -> list[onnx.NodeProto]:
        """Nodes that make ``target`` of ``source``: its values as their codes stand for them.

        They go through bytes, which ONNX Runtime rounds to fastest: 0.12 ms for 0.8 million numbers
        on one core, 0.13 with codes of fewer bits clipped as bytes, 0.30 by multiplying, rounding
        and clipping floats. Integer kernels can end in bytes, too.
        """
        self._packings[target] = packing
        scale = self._constant(f"{target}.scale", packing.scale)
        zero = self._constant(f"{target}.zero", packing.zero.astype(_CODE_TYPE))
        codes = self._codes(f"{target}.codes", source)
        nodes = [helper.make_node("QuantizeLinear", [source, scale, zero], [codes])]
        if packing.bits < _CODE_BITS:
            most = np.array(packing.limits[1], _CODE_TYPE)
            top, wide = self._constant(f"{target}.most", most), codes
            codes = self._codes(f"{target}.clipped", source)
            nodes.append(helper.make_node("Clip", [wide, "", top], [codes]))
        nodes.append(helper.make_node("DequantizeLinear", [codes, scale, zero], [target]))
        for node in nodes:
            node.name = f"{target}.{node.op_type}"
        return nodes

    def _codes(self, name: str, like: str) -> str:
        fresh = self._fresh(name)
        self._describe(fresh, like, _CODE_TYPE)
        return fresh

    def _describe(self, name: str, like: str, dtype: str = "float32") -> None:
        """Make a tensor known that has the shape of another."""
        self._tensors[name] = TensorSpec(name, self._tensors[like].shape, dtype)

    def _constant(self, name: str, array: Array) -> str:
        fresh = self._fresh(name)
        self._constants[fresh] = array
        return fresh

    def _add_layer(self, layer: Layer, rounded: Mapping[str, str]) -> None:
        entry = self._bits.get(layer.name, LayerBits())
        nodes = [_copy(self._graph.nodes[place], rounded) for place in layer.nodes]
        self._quantize_weights(layer, entry, nodes[0])
        packing, made = pack_activations(entry), made_floats(self._graph, layer)
        if packing is not None:
            for tensor in made:
                inner = self._fresh(f"{tensor}.float")
                self._describe(inner, tensor)
                _rename(nodes, tensor, inner)
                nodes += self._round(inner, tensor, packing)
        elif is_moving(self._graph, layer):
            source = rounded.get(layer.inputs[0], layer.inputs[0])
            if source in self._packings:
                self._packings |= dict.fromkeys(made, self._packings[source])
        self._draft.add(layer.name, nodes)

    def _quantize_weights(self, layer: Layer, entry: LayerBits, core: onnx.NodeProto) -> None:
        found = find_weights(self._graph, layer)
        packing = self._graph.remember(WeightRanges).pack(layer, entry)
        if found is None or packing is None:
            return
        graph, means, steps, bias = self._graph, entry.means, None, find_bias(self._graph, layer)
        raised = packing
        if bias is not None:
            check_means(graph, layer, means)
            raised, steps = fit_sums(bias, self._packings.get(core.input[0]), packing)
            if means or steps is not None:
                make_bias = partial(_make_bias, graph, layer, means, packing, steps)
                self._put(self._own(core, 2, layer), bias, make_bias, steps)
        array = np.asarray(graph.constants[found.name], np.float32)
        place = self._own(core, found.place, layer)
        self._put(place, array, partial(raised.round, array), raised)

    def _put(
        self, name: str, like: Array, make: Callable[[], Array], packing: Packing | None
    ) -> None:
        """Put a constant there that is made when it is read, and how it is codes."""
        spec = ArraySpec(like.shape, np.dtype(np.float32))
        self._constants.put_later(name, spec, make)
        if packing is not None:
            self._packings[name] = packing

    def _own(self, core: onnx.NodeProto, place: int, layer: Layer) -> str:
        """The name of a core's constant; another one where somebody else reads it, too."""
        name: str = core.input[place]
        if self._readers.get(name, 1) > 1:
            name = core.input[place] = self._fresh(f"{name}.{layer.name}")
        return name


def fit_sums(
    bias: Array, entering: Packing | None, weights: Packing
) -> tuple[Packing, Packing | None]:
    """How weights are codes, and how a bias is codes of their sums' steps.

    Args:
        bias: As it was before it made up for anything: that is little beside the room for it.
        entering: How what the weights multiply is codes; None where it is not.

    Returns:
        The weights' scale is raised where the bias had more steps than sums hold: such weights are
        next to nothing beside it, or next to nothing at all. None where the bias stays as it is.
    """
    if entering is None or bias.size != weights.scale.size > 1 or not np.isfinite(bias).all():
        return weights, None
    least = np.maximum(np.abs(bias.astype(np.float64)) / _MOST_STEPS, _LEAST_STEP)
    least /= entering.scale
    least = least if weights.scale.size > 1 else least.max(initial=0.0)
    scale = np.maximum(weights.scale, least.astype(np.float32))
    steps = np.array(np.broadcast_to(entering.scale * scale, bias.shape), np.float32)
    zero = np.zeros(bias.shape, np.int32)
    packing = Packing(SUM_BITS, 0, steps, zero, signed=True)
    return replace(weights, scale=scale.reshape(weights.scale.shape)), packing


def _make_bias(
    graph: Graph, layer: Layer, means: tuple[float, ...], weights: Packing, steps: Packing | None
) -> Array:
    """A core's bias that makes up for how its weights are rounded, in the steps of its sums.

    Args:
        means: Of each channel that it reads; none where it makes up for nothing.
    """
    bias, found = find_bias(graph, layer), find_weights(graph, layer)
    assert bias is not None
    assert found is not None
    if means:
        array = np.asarray(graph.constants[found.name], np.float32)
        off = weights.round(array) - array
        bias = (bias - shift_of(graph, layer, off, means)).astype(np.float32)
    return bias if steps is None else steps.round(np.asarray(bias, np.float32))


def _copy(node: Node, renamed: Mapping[str, str]) -> onnx.NodeProto:
    """A node that may be changed, reading what takes the place of the network's inputs."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    for place, name in enumerate(proto.input):
        proto.input[place] = renamed.get(name, name)
    return proto


def _rename(nodes: list[onnx.NodeProto], old: str, new: str) -> None:
    for node in nodes:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == old:
                    names[place] = new
