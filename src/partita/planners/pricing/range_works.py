"""The works of whole ranges of layers: many at once, for tables of all of them.

What a layer computes in a range depends on those after it alone: all ranges that end at one place
come of one walk back from there. Walks from two places soon want the same of what is before them,
nearly always all of it: from there on the later walk is the earlier one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partita.compile import FragmentWork
from partita.compile.work import LayerBox, Piece
from partita.planners.drafts.layer_order import LayerOrder
from partita.regions import Region

#: What is wanted of the layers before a place, as a walk comes there: the place, the boxes that
#: layers after it read, in their order, and the tensors that are wanted whole.
_Wanted = tuple[int, tuple[Piece, ...], tuple[str, ...]]


class _Walk(NamedTuple):
    """What the ranges up to one place compute.

    Attributes:
        boxes: Of each layer, its number in ``RangeWorks.distinct``.
        weights: Bytes of each layer's weights.
        reads: What the range from each layer on reads from outside.
    """

    boxes: NDArray[np.int64]
    weights: NDArray[np.int64]
    reads: list[tuple[Piece, ...]]


class RangeWorks:
    """Works of ranges, whole on one device: the same as :meth:`WorkBuilder.stage` gives.

    Attributes:
        distinct: What layers compute in the ranges looked at so far, each once; None first, for
            those that nobody needs.
    """

    def __init__(self, outline: LayerOrder) -> None:
        self._outline = outline
        self._index = [outline.graph.layer_index(name) for name in outline.order]
        self.distinct: list[LayerBox | None] = [None]
        self._numbers: dict[tuple[int, tuple[Piece, ...]], int] = {}
        self._walks: dict[int, _Walk] = {}
        self._passed: dict[_Wanted, int] = {}
        self._works: dict[tuple[int, int], FragmentWork] = {}

    def work(self, start: int, stop: int) -> FragmentWork:
        """Layers ``start`` to ``stop`` as one fragment that makes all of its outputs."""
        work = self._works.get((start, stop))
        if work is None:
            work = self._works[start, stop] = self._make(start, stop)
        return work

    def _make(self, start: int, stop: int) -> FragmentWork:
        walk = self._walk_from(stop)
        reads, outline = walk.reads[start], self._outline
        outputs = {tensor: self._whole(tensor) for tensor in outline.outputs(start, stop)}
        if all(box.is_empty for _, box in reads):  # follows from constants: not one of many
            return outline.works.stage(outline.layers(start, stop), outputs)
        places = sorted(range(start, stop), key=self._index.__getitem__)
        return FragmentWork(
            "stage",
            tuple(box for place in places if (box := self.distinct[walk.boxes[place]])),
            reads,
            tuple((tensor, box) for tensor, box in outputs.items() if not box.is_empty),
            int(walk.weights[start:].sum()),
        )

    def boxes(self, stop: int) -> NDArray[np.int64]:
        """What each layer before ``stop`` computes in a range that ends there, by ``distinct``."""
        return self._walk_from(stop).boxes

    def weights(self, stop: int) -> NDArray[np.int64]:
        """Bytes of the weights of each layer before ``stop`` in ranges that end there."""
        return self._walk_from(stop).weights

    def _walk_from(self, stop: int) -> _Walk:
        walk = self._walks.get(stop)
        if walk is None:
            walk = self._walks[stop] = self._walk(stop)
        return walk

    def _whole(self, tensor: str) -> Region:
        return Region.full(self._outline.graph.tensors[tensor].shape)

    def _walk(self, stop: int) -> _Walk:
        graph, works = self._outline.graph, self._outline.works
        whole = {tensor: self._whole(tensor) for tensor in self._outline.outputs(0, stop)}
        asked = {tensor: box for tensor, box in whole.items() if not box.is_empty}
        needs: dict[str, Region] = {}
        walk = _Walk(np.zeros(stop, np.int64), np.zeros(stop, np.int64), [()] * stop)
        for place in range(stop - 1, -1, -1):
            wanted = (place, tuple(needs.items()), tuple(asked))
            before = self._passed.setdefault(wanted, stop)
            if before in self._walks:
                _take(walk, self._walks[before], place + 1)
                return walk
            layer = graph.layer(self._outline.order[place])
            outs = {
                name: asked[name] if name in asked else needs[name]
                for name in layer.outputs
                if name in asked or name in needs
            }
            if outs:
                walk.boxes[place] = self._number(place, LayerBox(layer.name, tuple(outs.items())))
                walk.weights[place] = works.weight_bytes(layer, outs)
                for name, box in works.regions.walk(layer, outs).needs.items():
                    needs[name] = needs[name].hull(box) if name in needs else box
            for name in layer.outputs:
                needs.pop(name, None)
                asked.pop(name, None)
            walk.reads[place] = tuple(needs.items())
        return walk

    def _number(self, place: int, box: LayerBox) -> int:
        key = (place, box.boxes)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.distinct)
            self.distinct.append(box)
        return number


def _take(walk: _Walk, known: _Walk, stop: int) -> None:
    """Fill the places of a walk before ``stop`` from another."""
    walk.boxes[:stop] = known.boxes[:stop]
    walk.weights[:stop] = known.weights[:stop]
    walk.reads[:stop] = known.reads[:stop]
