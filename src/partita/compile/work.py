"""What one device computes in one step: layers, each for a box of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from partita.graph import Graph
from partita.graph.layer import Layer
from partita.graph.outputs import refuse_odd_outputs
from partita.graph.quantised import stored_shares
from partita.graph.regions import RegionMap
from partita.regions import Region

Piece = tuple[str, Region]
WorkKind = Literal["stage", "partial", "merge"]


@dataclass(frozen=True)
class LayerBox:
    """One layer and the boxes of its outputs that are computed (hulls, halo included)."""

    layer: str
    boxes: tuple[Piece, ...]

    def __hash__(self) -> int:
        """The same as a dataclass has, found once: works of ranges share what they compute."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.layer, self.boxes))


class WorkKey:
    """A key that is hashed once: planners look works up again and again."""

    __slots__ = ("_hash", "parts")

    def __init__(self, parts: tuple[object, ...]) -> None:
        self.parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, WorkKey) and self.parts == other.parts)


@dataclass(frozen=True)
class FragmentWork:
    """One fragment before it is written.

    Attributes:
        kind: ``stage`` for whole layers, ``partial`` for a core over part of its input,
            ``merge`` for adding partials and what follows them.
        layers: In topological order. For ``partial`` and ``merge`` exactly one.
        inputs: Tensors and boxes that come in; for ``merge`` the partials first.
        outputs: Tensors and boxes that go out.
        weight_bytes: Size of its weights once they are loaded.
        parts: Number of partials that a ``merge`` adds.
        share: Part of the layer's input that a ``partial`` reads, from 0 to 1.
    """

    kind: WorkKind
    layers: tuple[LayerBox, ...]
    inputs: tuple[Piece, ...]
    outputs: tuple[Piece, ...]
    weight_bytes: int
    parts: int = 0
    share: float = 1.0

    @cached_property
    def key(self) -> WorkKey:
        """What makes two works the same fragment."""
        inputs = self.inputs if self.kind == "partial" else self.parts
        return WorkKey((self.kind, self.layers, self.outputs, inputs))


class WorkBuilder:
    """Builds works of one graph and remembers them; planners ask for the same ones again and again.

    Raises:
        ModelError: An output's shape depends on the data.
    """

    def __init__(self, graph: Graph) -> None:
        refuse_odd_outputs(graph)
        self.graph = graph
        self.regions = graph.remember(RegionMap)
        self._stages: dict[tuple[object, ...], FragmentWork] = {}
        self._ordered: dict[tuple[str, ...], list[Layer]] = {}
        self._partials: dict[tuple[object, ...], FragmentWork] = {}
        self._merges: dict[tuple[object, ...], FragmentWork] = {}
        self._outputs: dict[tuple[str, ...], tuple[str, ...]] = {}

    def stage_outputs(self, layers: Sequence[str]) -> tuple[str, ...]:
        """The tensors of these layers that others, or the model's outputs, read."""
        key = tuple(layers)
        outputs = self._outputs.get(key)
        if outputs is None:
            outputs = self._outputs[key] = self.graph.outputs_of(self.ordered(layers))
        return outputs

    def ordered(self, layers: Sequence[str]) -> list[Layer]:
        """Layers in topological order."""
        key = tuple(layers)
        ordered = self._ordered.get(key)
        if ordered is None:
            indices = sorted(self.graph.layer_index(name) for name in key)
            ordered = self._ordered[key] = [self.graph.layers[index] for index in indices]
        return ordered

    def forget(self) -> None:
        """Forget the works, which fill the memory in long searches."""
        for works in (self._stages, self._partials, self._merges):
            works.clear()
        self.regions.forget()

    def stage(self, layers: tuple[str, ...], boxes: dict[str, Region]) -> FragmentWork:
        """The work that makes ``boxes`` of the stage's outputs, halo recomputed."""
        key = (layers, tuple(boxes.items()))
        work = self._stages.get(key)
        if work is None:
            work = self._stages[key] = self._stage(layers, boxes)
        return work

    def _stage(self, layers: tuple[str, ...], boxes: dict[str, Region]) -> FragmentWork:
        asked = {tensor: box for tensor, box in boxes.items() if not box.is_empty}
        computed, wanted = self.regions.walk_group(self.ordered(layers), asked)
        inner = {tensor for layer in self.ordered(layers) for tensor in layer.outputs}
        reads = {tensor: box for tensor, box in wanted.items() if tensor not in inner}
        if computed and all(box.is_empty for box in reads.values()):
            reads |= self._stand_in(layers, boxes)
        return FragmentWork(
            "stage",
            tuple(LayerBox(layer.name, tuple(outs.items())) for layer, outs in computed),
            tuple(reads.items()),
            tuple((tensor, wanted[tensor]) for tensor in boxes if tensor in wanted),
            sum(self.weight_bytes(layer, outs) for layer, outs in computed),
        )

    def weight_bytes(self, layer: Layer, boxes: Mapping[str, Region]) -> int:
        """The bytes of the weights that boxes of a layer's outputs need."""
        return int(layer.weight_bytes * self.regions.weight_share(layer, boxes))

    def stored_bytes(self, work: FragmentWork) -> int:
        """The bytes of a work's weights as they are stored and sent: packed codes are fewer."""
        shares = self.graph.remember(stored_shares)
        if not shares:
            return work.weight_bytes
        if work.kind != "stage":
            return int(work.weight_bytes * shares.get(work.layers[0].layer, 1.0))
        layers = ((self.graph.layer(item.layer), dict(item.boxes)) for item in work.layers)
        return sum(
            int(self.weight_bytes(layer, boxes) * shares.get(layer.name, 1.0))
            for layer, boxes in layers
        )

    def _stand_in(self, layers: tuple[str, ...], boxes: Mapping[str, Region]) -> dict[str, Region]:
        """What a work reads that follows from constants alone: one element, not used.

        Every step follows a request, so it waits for something of it. The element is the first or
        the last of the stage's first input, whichever is on the side of the boxes: their device may
        well have that already.
        """
        inside = {tensor for layer in self.ordered(layers) for tensor in layer.outputs}
        reads = (name for layer in self.ordered(layers) for name in layer.inputs)
        outside = (name for name in reads if name not in inside)
        source = next((name for name in outside if not self.regions.whole(name).is_empty), None)
        if source is None:
            return {}
        is_first = all(start == 0 for box in boxes.values() for start, _ in box.bounds)
        shape = self.graph.tensors[source].shape
        return {source: Region(tuple((0, 1) if is_first else (n - 1, n) for n in shape))}

    def core_output(self, layer: Layer) -> str:
        """The tensor that the layer's core writes, before the fused followers."""
        return self.graph.nodes[layer.nodes[0]].outputs[0]

    def sum_dtype(self, layer: Layer) -> str:
        """The type of the layer's partial results."""
        partial = self.regions.partial_form(layer)
        if partial is None:
            return self.graph.tensors[self.core_output(layer)].dtype
        return partial[0].sum_dtype(self.regions.view(self.graph.nodes[layer.nodes[0]]))

    def partial(self, layer: Layer, part: Region, name: str) -> FragmentWork:
        """The work that sums the layer's core over ``part`` of its first input."""
        key = (layer.name, part, name)
        work = self._partials.get(key)
        if work is None:
            work = self._partials[key] = self._partial(layer, part, name)
        return work

    def _partial(self, layer: Layer, part: Region, name: str) -> FragmentWork:
        source = self.regions.core_input(layer)
        whole = self.regions.whole(source)
        core = self.core_output(layer)
        whole_core = self.regions.whole(core)
        share = part.size / max(1, whole.size)
        return FragmentWork(
            "partial",
            (LayerBox(layer.name, ((core, whole_core),)),),
            ((source, part),),
            ((name, whole_core),),
            int(layer.weight_bytes * share),
            share=share,
        )

    def merge(
        self, layer: Layer, boxes: dict[str, Region], partials: Sequence[str]
    ) -> FragmentWork:
        """The work that adds ``partials`` and applies bias and followers for ``boxes``."""
        key = (layer.name, tuple(boxes.items()), tuple(partials))
        work = self._merges.get(key)
        if work is None:
            work = self._merges[key] = self._merge(layer, boxes, partials)
        return work

    def _merge(
        self, layer: Layer, boxes: dict[str, Region], partials: Sequence[str]
    ) -> FragmentWork:
        needs = dict(self.regions.merge_walk(layer, boxes).needs)
        core = self.core_output(layer)
        core_box = boxes[core] if core in boxes else self.core_box(layer, boxes)
        needs.pop(core, None)
        return FragmentWork(
            "merge",
            (LayerBox(layer.name, tuple(boxes.items())),),
            (*((name, core_box) for name in partials), *needs.items()),
            tuple(boxes.items()),
            0,
            parts=len(partials),
        )

    def core_box(self, layer: Layer, boxes: dict[str, Region]) -> Region:
        """The box of the core's output that ``boxes`` of the layer's outputs need."""
        box = self.regions.merge_walk(layer, boxes).outs[0][0]
        return self.regions.whole(self.core_output(layer)) if box is None else box
