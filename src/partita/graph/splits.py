"""Which axis of each tensor follows the image's height, and how each layer can be divided."""

from __future__ import annotations

from collections.abc import Iterator

from partita.graph.graph import Graph
from partita.graph.layer import Layer
from partita.graph.regions import RegionMap
from partita.regions import Region

#: Half of the rows must need about half of the input's: how far off the middle may be. Not tuned:
#: less refuses uneven halos on few rows, more takes axes that do not follow.
_TOLERANCE = 0.15
_CHANNEL_KINDS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def row_axes(graph: Graph) -> RowAxes:
    """The graph's row axes, found once."""
    return graph.remember(RowAxes)


class RowAxes:
    """The axis of each tensor that follows the image's height, found by asking the region rules.

    Each half of a layer's output along the right axis needs about the same half of the input; no
    operator is named here. Where no axis does (flatten, softmax over space), rows end.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._regions = graph.remember(RegionMap)
        self._axes: dict[str, int] = {}
        self._units: dict[str, int] = {}
        self._channels: dict[str, int | None] = {}
        for tensor in graph.inputs:
            axis = self._choose_input_axis(tensor)
            if axis is not None:
                self._axes[tensor] = axis
        for layer in graph.layers:
            self._axes.update(self._follow(layer, self._axes))
        for layer in graph.layers:  # in order, so that each finds those before it known
            for tensor in layer.outputs:
                self.unit(tensor)

    def axis(self, tensor: str) -> int | None:
        """The tensor's row axis; None where nothing follows the image's height."""
        return self._axes.get(tensor)

    def rows(self, tensor: str) -> int:
        """How many rows the tensor can be divided into; 1 where it has no row axis."""
        axis = self._axes.get(tensor)
        if axis is None:
            return 1
        return self._graph.tensors[tensor].shape[axis] // self.unit(tensor)

    def unit(self, tensor: str) -> int:
        """How many positions along the row axis come from one row of the image's kind.

        More than 1 where rows and columns were flattened together, and after nearest upsampling.
        """
        unit = self._units.get(tensor)
        if unit is None:
            unit = self._units[tensor] = self._find_unit(tensor)
        return unit

    def channel_axis(self, layer: str) -> int | None:
        """The axis of the layer's one output along which its weights are cut.

        None for what is no convolution or matrix product, and where channels cannot be divided.
        """
        if layer not in self._channels:
            facts = self._graph.layer(layer)
            may = facts.kind in _CHANNEL_KINDS and len(facts.outputs) == 1
            self._channels[layer] = self._regions.channel_axis(facts) if may else None
        return self._channels[layer]

    def is_divisible(self, layer: str) -> bool:
        """Whether every output of the layer has a row axis."""
        outputs = self._graph.layer(layer).outputs
        return bool(outputs) and all(tensor in self._axes for tensor in outputs)

    def splits(self, layer: str) -> tuple[str, ...]:
        """How a layer can be divided: rows, output_channels, input_channels, reduce.

        ``reduce`` means that its core sums over rows, so that partial results can be exchanged.
        """
        facts = self._graph.layer(layer)
        splits = ["rows"] if self.is_divisible(layer) else []
        if self.channel_axis(layer) is not None:
            splits.append("output_channels")
        partial = self._regions.partial_form(facts)
        if partial is not None:
            source = self._graph.nodes[facts.nodes[0]].inputs[0]
            over_rows = self._axes.get(source) in partial[1] and source in self._axes
            if over_rows and not self.is_divisible(layer):
                splits.append("reduce")
            elif self.input_axis(layer) is not None:
                splits.append("input_channels")
        return tuple(splits)

    def input_axis(self, layer: str) -> int | None:
        """The axis of the layer's first input that its weights are summed over, if any."""
        facts = self._graph.layer(layer)
        partial = self._regions.partial_form(facts) if facts.kind in _CHANNEL_KINDS else None
        return None if partial is None else partial[1][0]

    def _choose_input_axis(self, tensor: str) -> int | None:
        """The axis from which most work follows, where windows slide over height."""
        rank = len(self._graph.tensors[tensor].shape)
        if rank < 3:
            return None
        best, best_score = None, (False, 0, 0)
        for place, axis in enumerate(_candidates(rank)):
            if self._graph.tensors[tensor].shape[axis] < 2:
                continue
            score = self._score(tensor, axis)
            ranked = (score[0], score[1], -place)
            if best is None or ranked > best_score:
                best, best_score = axis, ranked
        return best

    def _score(self, tensor: str, axis: int) -> tuple[bool, int]:
        axes = {**self._axes, tensor: axis}
        reached = {tensor}
        height_first: bool | None = None
        covered = 0
        for layer in self._graph.layers:
            if reached.isdisjoint(layer.inputs):
                continue
            followed = self._follow(layer, axes)
            axes.update(followed)
            reached.update(followed)
            if followed:
                covered += layer.macs + 1
                if height_first is None and layer.window is not None:
                    rank = len(self._graph.tensors[layer.outputs[0]].shape)
                    height_first = followed[layer.outputs[0]] == max(2, rank - 2)
        return bool(height_first), covered

    def _follow(self, layer: Layer, axes: dict[str, int]) -> dict[str, int]:
        """The row axes of the layer's outputs; empty unless all have one."""
        if layer.barrier or not any(tensor in axes for tensor in layer.inputs):
            return {}
        followed = {}
        for tensor in layer.outputs:
            axis = next(self._matching_axes(layer, tensor, axes), None)
            if axis is None:
                return {}
            followed[tensor] = axis
        return followed

    def _matching_axes(self, layer: Layer, tensor: str, axes: dict[str, int]) -> Iterator[int]:
        shape = self._graph.tensors[tensor].shape
        if min(shape, default=0) < 1:
            return
        known = [axes[source] for source in layer.inputs if source in axes]
        order = sorted(range(len(shape)), key=lambda axis: (axis not in known, axis))
        for axis in order:
            if shape[axis] >= 2 and self._is_match(layer, tensor, axis, axes):
                yield axis

    def _is_match(self, layer: Layer, tensor: str, axis: int, axes: dict[str, int]) -> bool:
        """Whether both halves of an output need the right part of every input with rows."""
        whole = Region.full(self._graph.tensors[tensor].shape)
        extent = whole.bounds[axis][1]
        middle = extent // 2
        first, second = (
            self._regions.walk(layer, {tensor: whole.with_axis(axis, span)}).needs
            for span in ((0, middle), (middle, extent))
        )
        follows = False
        for source in {*first, *second}:
            if source not in axes:
                continue
            if source not in first or source not in second:
                return False
            height = self._graph.tensors[source].shape[axes[source]]
            start, stop = second[source].bounds[axes[source]][0], first[source].bounds[axes[source]]
            if stop[0] > 0 or second[source].bounds[axes[source]][1] < height * 0.8:
                return False
            if stop[1] >= height or start <= 0:
                return False
            centre = (start + stop[1]) / 2 / height
            if abs(centre - middle / extent) > max(_TOLERANCE, 1.0 / height):
                return False
            follows = True
        return follows

    def _find_unit(self, tensor: str) -> int:
        layer, axis = self._graph.producer(tensor), self._axes.get(tensor)
        if layer is None or axis is None:
            return 1
        shape = self._graph.tensors[tensor].shape
        whole = Region.full(shape)
        sources = [source for source in layer.inputs if source in self._axes]
        if not sources:
            return 1
        unit, rest = divmod(shape[axis], max(self.rows(source) for source in sources))
        if rest or unit < 2:
            return 1
        needs = [
            self._regions.walk(layer, {tensor: whole.with_axis(axis, (0, stop))}).needs
            for stop in (1, unit)
        ]
        return unit if needs[0] == needs[1] else 1


def _candidates(rank: int) -> tuple[int, ...]:
    """The axes that may be height, the usual one first."""
    usual = max(2, rank - 2)
    return (usual, *(axis for axis in range(1, rank) if axis != usual))
