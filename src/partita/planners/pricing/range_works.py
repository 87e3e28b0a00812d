"""The works of whole ranges of layers: many at once, for tables of all of them.

What a layer computes in a range depends on those after it alone: all ranges that end at one place
come of one walk back from there.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from partita.compile import FragmentWork
from partita.compile.work import LayerBox, Piece
from partita.planners.drafts.layer_order import LayerOrder
from partita.regions import Region


class _Walk(NamedTuple):
    """What the ranges up to one place compute.

    Attributes:
        boxes: Of each layer; None where nobody needs it.
        weights: Bytes of the layers' weights from the first on, one number more than layers.
        reads: What the range from each layer on reads from outside.
    """

    boxes: list[LayerBox | None]
    weights: list[int]
    reads: list[tuple[Piece, ...]]


class RangeWorks:
    """Works of ranges, whole on one device: the same as :meth:`WorkBuilder.stage` gives."""

    def __init__(self, outline: LayerOrder) -> None:
        self._outline = outline
        self._index = [outline.graph.layer_index(name) for name in outline.order]
        self._walks: dict[int, _Walk] = {}
        self._works: dict[tuple[int, int], FragmentWork] = {}

    def work(self, start: int, stop: int) -> FragmentWork:
        """Layers ``start`` to ``stop`` as one fragment that makes all of its outputs."""
        work = self._works.get((start, stop))
        if work is None:
            work = self._works[start, stop] = self._make(start, stop)
        return work

    def _make(self, start: int, stop: int) -> FragmentWork:
        walk = self._walks.get(stop) or self._walk(stop)
        reads, outline = walk.reads[start], self._outline
        outputs = {tensor: self._whole(tensor) for tensor in outline.outputs(start, stop)}
        if all(box.is_empty for _, box in reads):  # follows from constants: not one of many
            return outline.works.stage(outline.layers(start, stop), outputs)
        places = sorted(range(start, stop), key=self._index.__getitem__)
        return FragmentWork(
            "stage",
            tuple(box for place in places if (box := walk.boxes[place])),
            reads,
            tuple((tensor, box) for tensor, box in outputs.items() if not box.is_empty),
            walk.weights[stop] - walk.weights[start],
        )

    def boxes(self, stop: int) -> list[LayerBox | None]:
        """What each layer before ``stop`` computes in a range that ends there."""
        return (self._walks.get(stop) or self._walk(stop)).boxes

    def weights(self, stop: int) -> list[int]:
        """Bytes of weights before each layer up to ``stop``, and of all, in ranges ending there."""
        return (self._walks.get(stop) or self._walk(stop)).weights

    def _whole(self, tensor: str) -> Region:
        return Region.full(self._outline.graph.tensors[tensor].shape)

    def _walk(self, stop: int) -> _Walk:
        graph, works = self._outline.graph, self._outline.works
        asked = {tensor: self._whole(tensor) for tensor in self._outline.outputs(0, stop)}
        boxes: list[LayerBox | None] = [None] * stop
        weights = [0] * stop
        needs: dict[str, Region] = {}
        reads: list[tuple[Piece, ...]] = [()] * stop
        for place in range(stop - 1, -1, -1):
            layer = graph.layer(self._outline.order[place])
            wanted = needs | {name: box for name, box in asked.items() if not box.is_empty}
            outs = {name: wanted[name] for name in layer.outputs if name in wanted}
            if outs:
                boxes[place] = LayerBox(layer.name, tuple(outs.items()))
                weights[place] = works.weight_bytes(layer, outs)
                for name, box in works.regions.walk(layer, outs).needs.items():
                    needs[name] = needs[name].hull(box) if name in needs else box
            for name in layer.outputs:
                needs.pop(name, None)
            reads[place] = tuple(needs.items())
        walk = _Walk(boxes, list(accumulate(weights, initial=0)), reads)
        self._walks[stop] = walk
        return walk
