"""Operations and moved elements of a partition, for one split or the mean of many.

What the paper calls O and T (equation 3): operations of all split-parts with the rows that are
computed twice, and elements that devices send each other, with the scatter of the input and the
gathering of the last volume.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partita.planners.distredge.intervals import Rows, RowTables, Spans
from partita.planners.distredge.places import Volume
from partita.planners.drafts.layer_order import LayerOrder

#: Cuts, shape (splits, devices + 1), of a volume that ends at a position and has so many rows.
CutsAt = Callable[[int, int], Rows]


@dataclass(frozen=True)
class Account:
    """What a partition costs, means over the splits.

    Attributes:
        operations: Multiply-accumulates of all parts, those of rows computed twice included.
        scatter_elements: Of the network's inputs, sent by a requester that computes nothing.
        halo_elements: Sent between devices from volume to volume.
        gather_elements: Sent to the device with the largest part of the last volume.
    """

    operations: float
    scatter_elements: float
    halo_elements: float
    gather_elements: float

    @property
    def moved_elements(self) -> float:
        """All elements that are sent."""
        return self.scatter_elements + self.halo_elements + self.gather_elements


@dataclass(frozen=True)
class _Part:
    """One volume: its operations, and the rows of each tensor that come in."""

    operations: float
    needs: dict[str, Spans | None]
    busy: npt.NDArray[np.bool_]


class Counter:
    """Counts partitions of one network under given splits, and remembers its volumes."""

    def __init__(self, tables: RowTables, cuts_at: CutsAt) -> None:
        self._tables = tables
        self._outline: LayerOrder = tables.outline
        self._cuts_at = cuts_at
        self._parts: dict[Volume, _Part] = {}
        self._halos: dict[tuple[str, Volume, Volume], float] = {}
        self._gathers: dict[tuple[str, Volume, Volume], float] = {}

    def count(self, volumes: Sequence[Volume]) -> Account:
        """What a partition costs; ``volumes`` are in order and hold all layers with rows."""
        operations = scatter = halo = gather = 0.0
        owner: dict[str, Volume] = {}
        for volume in volumes:
            part = self._part(volume)
            operations += part.operations
            for tensor in part.needs:
                if tensor in owner:
                    halo += self._halo(tensor, owner[tensor], volume)
                elif self._outline.graph.producer(tensor) is None:
                    scatter += self._scatter(part, tensor)
            owner |= dict.fromkeys(self._outline.outputs(volume.start, volume.stop), volume)
        for tensor in self._outline.live(volumes[-1].stop):
            if tensor in owner:
                gather += self._gather(tensor, owner[tensor], volumes[-1])
        return Account(operations, scatter, halo, gather)

    def _part(self, volume: Volume) -> _Part:
        part = self._parts.get(volume)
        if part is None:
            part = self._parts[volume] = self._make_part(volume)
        return part

    def _make_part(self, volume: Volume) -> _Part:
        outline = self._outline
        outputs = outline.outputs(volume.start, volume.stop)
        wanted: dict[str, Spans | None] = {
            tensor: self._owned(tensor, volume) for tensor in outputs
        }
        busy = np.logical_or.reduce([w.sizes > 0 for w in wanted.values() if w is not None])
        operations, inside = 0.0, set[str]()
        for layer in reversed(outline.works.ordered(outline.layers(volume.start, volume.stop))):
            inside |= set(layer.outputs)
            asked = {t: w for t in layer.outputs if (w := wanted.get(t)) is not None}
            if not asked:
                continue
            rows = max(outline.axes.rows(tensor) for tensor in layer.outputs)
            sizes = np.maximum.reduce([spans.sizes for spans in asked.values()])
            operations += float(sizes.sum() * layer.macs) / rows / len(sizes)
            for tensor, spans in self._tables.needs(layer, asked).items():
                old = wanted.get(tensor)
                wanted[tensor] = spans if old is None or spans is None else old.hull(spans)
        needs = {tensor: spans for tensor, spans in wanted.items() if tensor not in inside}
        return _Part(operations, needs, busy)

    def _owned(self, tensor: str, volume: Volume) -> Spans:
        """The rows of a volume's output that each device owns."""
        height = self._outline.rows(volume.start, volume.stop)
        cuts = self._cuts_at(volume.stop, height)
        rows = self._outline.axes.rows(tensor)
        if rows != height:
            cuts = (2 * cuts * rows + height) // (2 * height)
        return Spans.of_cuts(cuts)

    def _row_size(self, tensor: str) -> float:
        size = int(np.prod(self._outline.graph.tensors[tensor].shape))
        return size / self._outline.axes.rows(tensor)

    def _scatter(self, part: _Part, tensor: str) -> float:
        spans = part.needs[tensor]
        rows = self._outline.axes.rows(tensor)
        counts: npt.NDArray[Any] = part.busy * rows if spans is None else spans.sizes
        return float(counts.sum()) / len(counts) * self._row_size(tensor)

    def _halo(self, tensor: str, owner: Volume, volume: Volume) -> float:
        key = (tensor, owner, volume)
        elements = self._halos.get(key)
        if elements is None:
            owned, needed = self._owned(tensor, owner), self._part(volume).needs[tensor]
            if needed is None:
                rows = self._outline.axes.rows(tensor)
                counts = self._part(volume).busy * (rows - owned.sizes)
            else:
                counts = needed.sizes - needed.common(owned)
            elements = float(counts.sum()) / len(counts) * self._row_size(tensor)
            self._halos[key] = elements
        return elements

    def _gather(self, tensor: str, owner: Volume, last: Volume) -> float:
        key = (tensor, owner, last)
        elements = self._gathers.get(key)
        if elements is None:
            sizes = self._owned(tensor, owner).sizes
            height = self._outline.rows(last.start, last.stop)
            tail = Spans.of_cuts(self._cuts_at(last.stop, height)).sizes.argmax(axis=1)
            kept = sizes[np.arange(len(sizes)), tail]
            moved = float((sizes.sum(axis=1) - kept).sum()) / len(sizes)
            elements = self._gathers[key] = moved * self._row_size(tensor)
        return elements
