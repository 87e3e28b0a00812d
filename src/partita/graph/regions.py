"""How a region of a layer's output maps to regions of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.graph.layer import Layer
from partita.graph.node import Node
from partita.graph.rules import PARTIAL_FORMS, NodeView, PartialForm, Rule, rule_of
from partita.regions import Region

if TYPE_CHECKING:
    from partita.graph.graph import Graph

TensorBoxes = Mapping[str, Region]


@dataclass(frozen=True)
class LayerWalk:
    """One layer computed for some boxes of its outputs.

    Attributes:
        outs: Per node of the layer, in order: the box of each output, None where not needed.
        needs: Tensors from outside the layer, with the hull of what its nodes read.
        core_weight_bytes: Of the constants that the core reads for its box.
    """

    outs: tuple[tuple[Region | None, ...], ...]
    needs: dict[str, Region]
    core_weight_bytes: int


class RegionMap:
    """Region queries on one graph, remembered: one for all, see :meth:`Graph.remember`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._views: dict[int, NodeView] = {}
        self._rules: dict[int, Rule] = {}
        self._walks: dict[tuple[str, tuple[tuple[str, Region], ...]], LayerWalk] = {}
        self._whole_weights: dict[tuple[str, ...], int] = {}

    def view(self, node: Node) -> NodeView:
        """A node with shapes and constants, for its rule."""
        view = self._views.get(node.index)
        if view is None:
            view = self._views[node.index] = self._make_view(node)
        return view

    def rule(self, node: Node) -> Rule:
        """What says which boxes of its inputs a node needs."""
        rule = self._rules.get(node.index)
        if rule is None:
            view = self.view(node)
            shapes = (*filter(None, view.input_shapes), *view.output_shapes)
            rule = self._rules[node.index] = rule_of(node, self._graph.opset, shapes)
        return rule

    def _make_view(self, node: Node) -> NodeView:
        graph = self._graph
        shapes = tuple(self._shape(name) if name else None for name in node.inputs)
        outputs = tuple(graph.tensors[name].shape if name else () for name in node.outputs)
        dtype = "float32"
        if node.inputs and node.inputs[0]:
            dtype = self._dtype(node.inputs[0])
        return NodeView(node, shapes, outputs, graph.constants, dtype, graph.opset)

    def _shape(self, name: str) -> tuple[int, ...]:
        constants = self._graph.constants
        return constants.spec(name).shape if name in constants else self._graph.tensors[name].shape

    def _dtype(self, name: str) -> str:
        constants = self._graph.constants
        is_constant = name in constants
        return str(constants.spec(name).dtype) if is_constant else self._graph.tensors[name].dtype

    def forget(self) -> None:
        """Forget the walks, which fill the memory in long searches."""
        self._walks.clear()

    def walk(self, layer: Layer, boxes: TensorBoxes) -> LayerWalk:
        """What each node of ``layer`` computes so that ``boxes`` of its outputs come out."""
        key = (layer.name, tuple(sorted(boxes.items(), key=lambda item: item[0])))
        walk = self._walks.get(key)
        if walk is None:
            walk = self._walks[key] = self._walk(layer, boxes)
        return walk

    def _walk(self, layer: Layer, boxes: TensorBoxes, *, stop_at_core: bool = False) -> LayerWalk:
        wanted = dict(boxes)
        nodes = [self._graph.nodes[index] for index in layer.nodes]
        outs: list[tuple[Region | None, ...]] = []
        weight_bytes = 0
        for position in range(len(nodes) - 1, -1, -1):
            node = nodes[position]
            computed = tuple(wanted.get(name) if name else None for name in node.outputs)
            outs.append(computed)
            if any(box is not None for box in computed) and not (stop_at_core and position == 0):
                weight_bytes = self._add_needs(node, computed, wanted)
        inside = {name for node in nodes for name in node.outputs}
        kept = {
            name: box
            for name, box in wanted.items()
            if name not in inside and name not in self._graph.constants
        }
        if layer.barrier and not kept:  # a fixed value: see make_layers
            kept = {name: self.whole(name) for name in layer.inputs}
        return LayerWalk(tuple(reversed(outs)), kept, weight_bytes)

    def _add_needs(
        self, node: Node, computed: tuple[Region | None, ...], wanted: dict[str, Region]
    ) -> int:
        """Add what a node reads to ``wanted``; return the bytes that it reads of constants."""
        constants, weight_bytes = self._graph.constants, 0
        needs = self.rule(node).needs(self.view(node), computed)
        pairs: Iterable[tuple[str, Region | None]] = zip(node.inputs, needs, strict=True)
        outer = [(n, self.whole(n)) for n in node.captured if n in self._graph.tensors]
        for name, box in (*pairs, *outer):
            if box is None:
                continue
            if name in constants:
                weight_bytes += box.size * constants.spec(name).dtype.itemsize
            else:
                before = wanted.get(name)
                wanted[name] = box if before is None else before.hull(box)
        return weight_bytes

    def walk_group(
        self, layers: Sequence[Layer], wanted: TensorBoxes
    ) -> tuple[list[tuple[Layer, dict[str, Region]]], dict[str, Region]]:
        """What layers, in order, compute so that ``wanted`` comes out, halos included.

        Returns:
            The layers that take part, each with the boxes of its outputs; and the box of every
            tensor that is read or made, those of ``wanted`` first.
        """
        boxes = dict(wanted)
        computed: list[tuple[Layer, dict[str, Region]]] = []
        for layer in reversed(layers):
            outs = {tensor: boxes[tensor] for tensor in layer.outputs if tensor in boxes}
            if not outs:
                continue
            computed.append((layer, outs))
            for tensor, box in self.walk(layer, outs).needs.items():
                boxes[tensor] = boxes[tensor].hull(box) if tensor in boxes else box
        return computed[::-1], boxes

    def whole(self, tensor: str) -> Region:
        """The box of a whole tensor."""
        return Region.full(self._graph.tensors[tensor].shape)

    def weight_share(self, layer: Layer, boxes: TensorBoxes) -> float:
        """The part of the core's weights that ``boxes`` of the layer's outputs need, 0 to 1."""
        if layer.barrier or not layer.weight_bytes:
            return 1.0
        key = (layer.name, *boxes)
        whole = self._whole_weights.get(key)
        if whole is None:
            walk = self.walk(layer, {name: self.whole(name) for name in boxes})
            whole = self._whole_weights[key] = walk.core_weight_bytes
        return self.walk(layer, boxes).core_weight_bytes / whole if whole else 1.0

    def channel_axis(self, layer: Layer) -> int | None:
        """The axis of the layer's first output along which its weights are cut; None for no such.

        Asked of the core's rule: half of the output along it needs about half of the weights. Of
        several such axes the longest. A product of two activations (attention's) has no weights:
        there it is an axis along which both are cut.
        """
        if layer.barrier:
            return None
        tensor = layer.outputs[0]
        best, longest = None, 1
        for axis, extent in enumerate(self.whole(tensor).shape):
            if extent <= longest:
                continue
            half = {tensor: self.whole(tensor).with_axis(axis, (0, extent // 2))}
            if self._cut_share(layer, half) < (1 + extent // 2 / extent) / 2:
                best, longest = axis, extent
        return best

    def _cut_share(self, layer: Layer, boxes: TensorBoxes) -> float:
        """The part of the core's weights, or else of the least cut input, that the boxes need."""
        whole = self.walk(layer, {name: self.whole(name) for name in boxes})
        if whole.core_weight_bytes:
            return self.weight_share(layer, boxes)
        needs = self.walk(layer, boxes).needs
        shares = (box.size / max(1, whole.needs[name].size) for name, box in needs.items())
        return max(shares, default=1.0)

    def partial_form(self, layer: Layer) -> tuple[PartialForm, tuple[int, ...]] | None:
        """How the layer's core can be summed over parts of its first input, and which axes.

        None when it cannot: the core is no such operator, or its further inputs are not constant.
        """
        node = self._graph.nodes[layer.nodes[0]]
        form = None if node.domain else PARTIAL_FORMS.get(node.op)
        if form is None or self._graph.opset < 13 or node.inputs[0] in self._graph.constants:
            return None
        if any(name and name not in self._graph.constants for name in node.inputs[1:]):
            return None
        axes = form.split_axes(self.view(node))
        return (form, axes) if axes else None

    def core_input(self, layer: Layer) -> str:
        """What the layer's core reads first: the tensor that partial results take parts of."""
        return self._graph.nodes[layer.nodes[0]].inputs[0]

    def summed(self, layer: Layer) -> tuple[str, tuple[int, ...]] | None:
        """The tensor that the layer's core can be summed over parts of, and axes to cut it along.

        None when it cannot: see :meth:`partial_form`.
        """
        partial = self.partial_form(layer)
        return None if partial is None else (self.core_input(layer), partial[1])

    def merge_walk(self, layer: Layer, boxes: TensorBoxes) -> LayerWalk:
        """The walk of a layer's followers alone, down to the core's output.

        The first entry of ``outs`` is the box of the core's output that partials must hold.
        """
        return self._walk(layer, boxes, stop_at_core=True)
