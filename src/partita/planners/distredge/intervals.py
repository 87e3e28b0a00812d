"""Rows that a layer reads to make rows of its output, for many splits at a time.

The paper's vertical-splitting law (section III-B, equations 1 and 2) knows no padding: for all
seven rows of VGG-16's last pool it asks for 404 rows of an image that has 224. Tables made by the
region rules replace it; :func:`law_rows` keeps the law as published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partita.graph import Layer
from partita.planners.drafts.layer_order import LayerOrder
from partita.regions import Region

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """Half-open row intervals of one tensor, one per split and device; empty where start is stop.

    Attributes:
        start: First rows, shape (splits, devices).
        stop: Rows after the last, same shape.
    """

    start: Rows
    stop: Rows

    @property
    def sizes(self) -> Rows:
        """Rows of each interval."""
        return self.stop - self.start

    def hull(self, other: Spans) -> Spans:
        """The least intervals that hold both; an empty one adds nothing."""
        mine, theirs = self.sizes > 0, other.sizes > 0
        start = np.minimum(self.start, other.start)
        stop = np.maximum(self.stop, other.stop)
        single = np.where(mine, self.start, other.start), np.where(mine, self.stop, other.stop)
        both = mine & theirs
        return Spans(np.where(both, start, single[0]), np.where(both, stop, single[1]))

    def common(self, other: Spans) -> Rows:
        """How many rows each interval shares with its partner."""
        shared = np.minimum(self.stop, other.stop) - np.maximum(self.start, other.start)
        return np.asarray(np.maximum(shared, 0))

    @classmethod
    def of_cuts(cls, cuts: npt.ArrayLike) -> Spans:
        """The parts between cuts, shape (splits, devices + 1)."""
        array = np.atleast_2d(np.asarray(cuts, dtype=np.int64))
        return cls(array[:, :-1], array[:, 1:])


@dataclass(frozen=True)
class _Reach:
    """First and last rows of an input that single rows of an output read."""

    first: Rows
    after: Rows

    def needs(self, computed: Spans) -> Spans:
        """What intervals of the output read."""
        start = self.first[np.minimum(computed.start, len(self.first) - 1)]
        stop = self.after[np.maximum(computed.stop - 1, 0)]
        some = (computed.sizes > 0) & (stop > start)
        return Spans(np.where(some, start, 0), np.where(some, stop, 0))


class RowTables:
    """Which rows of its inputs each layer reads, tabulated once per layer."""

    def __init__(self, outline: LayerOrder) -> None:
        self.outline = outline
        self._reaches: dict[str, dict[str, list[tuple[str, _Reach | None]]]] = {}

    def needs(self, layer: Layer, computed: dict[str, Spans]) -> dict[str, Spans | None]:
        """The rows of each input that intervals of the outputs read.

        An input without rows, or one that is read whole whatever the rows, has None.
        """
        needs: dict[str, Spans | None] = {}
        tables = self._tables(layer)
        for output, spans in computed.items():
            for source, reach in tables[output]:
                new = None if reach is None else reach.needs(spans)
                old = needs.get(source)
                needs[source] = new if new is None or old is None else old.hull(new)
        return needs

    def _tables(self, layer: Layer) -> dict[str, list[tuple[str, _Reach | None]]]:
        tables = self._reaches.get(layer.name)
        if tables is None:
            tables = {output: self._tabulate(layer, output) for output in layer.outputs}
            self._reaches[layer.name] = tables
        return tables

    def _tabulate(self, layer: Layer, output: str) -> list[tuple[str, _Reach | None]]:
        outline = self.outline
        rows = outline.axes.rows(output)
        reads = [self._row_needs(layer, output, row) for row in range(rows)]
        sources = dict.fromkeys(source for needs in reads for source in needs)
        return [(source, self._reach(source, [n.get(source) for n in reads])) for source in sources]

    def _row_needs(self, layer: Layer, output: str, row: int) -> dict[str, Region]:
        """The boxes that one row of an output reads."""
        axes = self.outline.axes
        whole = Region.full(self.outline.graph.tensors[output].shape)
        axis, unit = axes.axis(output), axes.unit(output)
        if axis is None:
            return self.outline.works.regions.walk(layer, {output: whole}).needs
        end = whole.bounds[axis][1] if row + 1 == axes.rows(output) else (row + 1) * unit
        box = whole.with_axis(axis, (row * unit, end))
        return self.outline.works.regions.walk(layer, {output: box}).needs

    def _reach(self, source: str, boxes: Sequence[Region | None]) -> _Reach | None:
        axis, unit = self.outline.axes.axis(source), self.outline.axes.unit(source)
        if axis is None:
            return None
        nothing = (unit * self.outline.axes.rows(source), 0)
        bounds = [nothing if box is None else box.bounds[axis] for box in boxes]
        first = np.array([start // unit for start, _ in bounds], dtype=np.int64)
        after = np.array([-(-stop // unit) for _, stop in bounds], dtype=np.int64)
        # Later rows read later rows; a running extreme keeps hulls right where a rule is uneven.
        first = np.minimum.accumulate(first[::-1])[::-1]
        return _Reach(first, np.maximum.accumulate(after))


def random_cuts(fractions: npt.NDArray[Any], rows: int) -> Rows:
    """Cuts of ``rows`` at sorted fractions, ends included: shape (splits, devices + 1)."""
    inner = np.rint(np.sort(fractions, axis=1) * rows).astype(np.int64)
    zeros = np.zeros((len(inner), 1), dtype=np.int64)
    return np.concatenate([zeros, inner, zeros + rows], axis=1)
