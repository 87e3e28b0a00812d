"""How much work a layer is, and how much of it a box of its output asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from partita.graph import Graph, Layer
from partita.graph.splits import RowAxes, row_axes
from partita.graph.work import Products
from partita.program import type_bytes
from partita.regions import Region

#: One number of rows, or an array of many.
Rows = TypeVar("Rows", float, npt.NDArray[np.float64])
#: Elements of each of several tensors, and the bits of one of each.
Stored = tuple[tuple[int, int], ...]
_DENSE = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True)
class Amount:
    """The whole of one layer.

    Attributes:
        kind: Operator of the layer's core.
        group: ``dense``, ``winograd`` (3x3, stride 1), ``depthwise`` or ``stream`` (no
            multiplications worth counting).
        weight_bytes: Read whatever the number of rows.
        moved_bytes: Inputs and outputs together.
        rows: Extent of the first output along its row axis; 1 where it has none.
        channels: Extent of the first output along its channel axis.
        products: Its matrix products.
        operand_bits: Of the widest number that they multiply; 0 where there are none.
        weights: The constants, as the graph has them: packed codes at the bits of one.
        inputs: What it reads of other layers.
        outputs: What others read of it.
    """

    layer: str
    kind: str
    group: str
    macs: int
    weight_bytes: int
    moved_bytes: int
    rows: int
    channels: int
    products: tuple[Products, ...] = ()
    operand_bits: int = 0
    weights: Stored = ()
    inputs: Stored = ()
    outputs: Stored = ()

    def macs_at(self, rows: Rows) -> Rows:
        """Multiply-accumulates for ``rows`` output rows, one number or many."""
        return self.macs * rows / self.rows

    def bytes_at(self, rows: Rows) -> Rows:
        """Bytes that move for ``rows`` output rows, one number or many."""
        return self.weight_bytes + self.moved_bytes * rows / self.rows


class Extent(NamedTuple):
    """How much of a layer a box of its first output is.

    Attributes:
        rows: As many whole rows as the box's rows are large: part of a row's columns is part of a
            row, since a layer reads all its weights for the one as for the other. Measured on
            convolutions of three networks, columns take 0.9 to 1.2 times that, single ones under a
            window of 3 up to 1.7 times.
        share: Of each row's channels.
        columns: The width of a box that has not all columns, else None.
    """

    rows: float
    share: float
    columns: int | None = None


class _Place(NamedTuple):
    """Where a layer's first output has rows and columns.

    Attributes:
        rows: Their axis.
        columns: Their axis.
        row_size: Elements of one row.
        width: How many columns there are.
    """

    rows: int | None
    columns: int | None
    row_size: int
    width: int


class Amounts:
    """The amounts of all layers of a graph, and the extents of boxes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.axes: RowAxes = row_axes(graph)
        self.layers = {layer.name: self._amount(layer) for layer in graph.layers}
        self._places = {layer.name: self._place(layer) for layer in graph.layers}

    def _amount(self, layer: Layer) -> Amount:
        output = layer.outputs[0] if layer.outputs else ""
        shape = self.graph.tensors[output].shape if output else ()
        axis = self.axes.axis(output)
        moved = sum(self.graph.size_bytes(name) for name in layer.inputs) + layer.output_bytes
        channel_axis = self.axes.channel_axis(layer.name)
        channels = shape[1 if channel_axis is None else channel_axis] if len(shape) > 1 else 1
        operands = {name for item in layer.products for name in item.operands}
        reads = dict.fromkeys(n for place in layer.nodes for n in self.graph.nodes[place].reads)
        return Amount(
            layer=layer.name,
            kind=layer.kind,
            group=find_group(layer, channels),
            macs=layer.macs,
            weight_bytes=layer.weight_bytes,
            moved_bytes=moved,
            rows=1 if axis is None else max(1, shape[axis]),
            channels=max(1, channels),
            products=layer.products,
            operand_bits=max((self._bits(name) for name in operands), default=0),
            weights=self._stored(name for name in reads if name in self.graph.constants),
            inputs=self._stored(layer.inputs),
            outputs=self._stored(layer.outputs),
        )

    def _stored(self, names: Iterable[str]) -> Stored:
        return tuple((self._elements(name), self._bits(name)) for name in names)

    def _elements(self, name: str) -> int:
        """Of a constant or a tensor; 0 where its shape depends on the data."""
        if name in self.graph.constants:
            return self.graph.constants.spec(name).size
        spec = self.graph.tensors[name]
        return spec.size_bytes // type_bytes(spec.dtype)

    def _bits(self, name: str) -> int:
        """Of one element of a constant or a tensor, of a code where it is quantised."""
        packing = self.graph.packings.get(name)
        if packing is not None:
            return packing.bits
        if name in self.graph.constants:
            return 8 * self.graph.constants.spec(name).dtype.itemsize
        return 8 * type_bytes(self.graph.tensors[name].dtype)

    def _place(self, layer: Layer) -> _Place:
        if not layer.outputs:
            return _Place(None, None, 1, 1)
        shape = self.graph.tensors[layer.outputs[0]].shape
        axis = self.axes.axis(layer.outputs[0])
        size = max(1, Region.full(shape).size)
        if axis is None:
            return _Place(None, None, size, 1)
        row_size = max(1, size // max(1, shape[axis]))
        columns = axis + 1
        if columns == len(shape) or columns == self.axes.channel_axis(layer.name):
            return _Place(axis, None, row_size, 1)
        return _Place(axis, columns, row_size, shape[columns])

    def extent(self, layer: str, box: Region) -> Extent:
        """How much of the layer ``box`` of its first output is."""
        place = self._places[layer]
        if place.rows is None:
            return Extent(1, box.size / place.row_size)
        start, stop = box.bounds[place.rows]
        rows = stop - start
        if rows <= 0:
            return Extent(0, 0.0)
        share = box.size / (rows * place.row_size)
        if share == 1.0 or place.columns is None:
            return Extent(rows, share)
        start, stop = box.bounds[place.columns]
        columns = stop - start
        if columns == place.width:
            return Extent(rows, share)
        of_width = columns / place.width
        return Extent(rows * of_width, share / of_width, columns)


def find_group(layer: Layer, channels: int) -> str:
    """The group of layers that share an efficiency."""
    window = layer.window
    if layer.macs == 0 or layer.kind not in _DENSE:
        return "stream"
    if window is not None and window.groups > 1 and window.groups >= channels:
        return "depthwise"
    if window is not None and set(window.kernel) == {3} and set(window.stride) == {1}:
        return "winograd"
    return "dense"


def pieces_bytes(graph: Graph, pieces: Sequence[tuple[str, Region]], dtype: str) -> int:
    """The size of pieces; ``dtype`` counts for tensors that the graph does not know."""
    total = 0
    for tensor, box in pieces:
        spec = graph.tensors.get(tensor)
        total += box.size * type_bytes(dtype if spec is None else spec.dtype)
    return total
