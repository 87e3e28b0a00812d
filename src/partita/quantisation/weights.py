"""Ranges of a graph's weights, each found once."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from partita.errors import PlanError
from partita.graph import Graph, Layer
from partita.quantisation.bits import WIDTHS, Weights, find_weights
from partita.quantisation.clipping import WEIGHT_MANTISSAS, Coder, Row, Rows
from partita.regions import LayerBits, Packing
from partita.regions.packing import Floats

#: Weights are looked at in blocks of at most as many elements, so that copies stay small.
_BLOCK = 2**20


#: By layer and width: the ends of each row's range.
WeightEnds = dict[str, dict[int, tuple[list[float], list[float]]]]


class WeightRanges:
    """Finds ranges of weights and remembers them: see :meth:`partita.graph.Graph.remember`.

    Searches quantise a graph again and again, and finding a range takes twenty times as long as
    quantising.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._ends: dict[tuple[object, ...], tuple[Row, Row]] = {}

    def pack(self, layer: Layer, entry: LayerBits) -> Packing | None:
        """How the layer's weights are codes; None where they are left alone.

        Raises:
            PlanError: Weights are not finite.
        """
        weights = find_weights(self._graph, layer)
        if weights is None or entry.weight is None:
            return None
        axis = weights.axis if entry.per_channel else None
        mantissas = WEIGHT_MANTISSAS if entry.exact_sums else ()
        coder = Coder(entry.weight, entry.affine, mantissas)
        key = _key(layer.name, entry)
        if key not in self._ends:
            self._ends[key] = self._find(layer, weights, axis, coder, entry)
        low, high = self._ends[key]
        return coder.pack(low * entry.stretch, high * entry.stretch, axis)

    def list_ends(self, like: LayerBits) -> WeightEnds:
        """Those that were found for codes of a kind, at all widths, to be kept."""
        ends: WeightEnds = {}
        for layer in self._graph.layers:
            for width in WIDTHS:
                found = self._ends.get(_key(layer.name, replace(like, weight=width)))
                if found is not None:
                    low, high = (part.tolist() for part in found)
                    ends.setdefault(layer.name, {})[width] = (low, high)
        return ends

    def know(self, ends: WeightEnds, like: LayerBits) -> None:
        """Take what :meth:`list_ends` gave of the same graph, and search for it no more."""
        for name, by_width in ends.items():
            for width, (low, high) in by_width.items():
                key = _key(name, replace(like, weight=width))
                self._ends[key] = (np.array(low), np.array(high))

    def _find(
        self, layer: Layer, weights: Weights, axis: int | None, coder: Coder, entry: LayerBits
    ) -> tuple[Row, Row]:
        array = self._graph.constants[weights.name]
        if not np.isfinite(array).all():
            raise PlanError(
                f"Weights '{weights.name}' of layer '{layer.name}' are not finite and cannot be"
                " quantised.",
                subject=layer.name,
            )
        rows = as_rows(np.asarray(array, np.float32), axis)
        step = max(1, _BLOCK // rows.shape[1])
        ends = [
            coder.limits(Rows(rows[start : start + step]), entry.clipping, entry.norm)
            for start in range(0, len(rows), step)
        ]
        low, high = (np.concatenate(part) for part in zip(*ends, strict=True))
        return low, high


def _key(layer: str, entry: LayerBits) -> tuple[object, ...]:
    ways = (entry.per_channel, entry.affine, entry.clipping, entry.norm, entry.exact_sums)
    return (layer, entry.weight, *ways)


def as_rows(array: Floats, axis: int | None) -> Floats:
    """Weights with a row for each extent of ``axis``; one row for all where it is None."""
    if axis is None:
        return array.reshape(1, -1)
    moved = np.ascontiguousarray(np.moveaxis(array, axis, 0))
    return moved.reshape(moved.shape[0], -1)
