"""The network as planners see it: layers in a planning order, and how each may be divided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Literal

from partita.compile import WorkBuilder, work_builder
from partita.errors import InfeasibleError, PlanError
from partita.graph import Graph, Layer
from partita.graph.liveness import live_tensors
from partita.graph.splits import RowAxes, row_axes

LayerKind = Literal["rows", "reduce", "whole"]


class LayerOrder:
    """Layers in an order in which those with rows come as early as they can.

    Heads of a detector, say, then all come before the concatenation over scales that ends them, so
    that a divided stage is a range of the order.

    Args:
        keep_on: Tensors that must not leave a device; the layers that touch them are pinned there.
        requester: Where the network's inputs are.

    Raises:
        PlanError: ``keep_on`` names no tensor of the network.
        InfeasibleError: The tensors kept pin one layer to two devices.
    """

    def __init__(
        self, graph: Graph, keep_on: Mapping[str, str] | None = None, requester: str = ""
    ) -> None:
        self.graph = graph
        self.axes: RowAxes = row_axes(graph)
        self.works: WorkBuilder = work_builder(graph)
        self._splits = {layer.name: self.axes.splits(layer.name) for layer in graph.layers}
        self.order: tuple[str, ...] = self._make_order()
        self.kinds: tuple[LayerKind, ...] = tuple(self._kind(name) for name in self.order)
        self.pins = self._find_pins(keep_on or {}, requester)
        place = {name: position for position, name in enumerate(self.order)}
        tensors = [tensor for layer in graph.layers for tensor in layer.outputs]
        self._listed = {tensor: number for number, tensor in enumerate(tensors)}
        self._made = {t: at for name, at in place.items() for t in graph.layer(name).outputs}
        self._outputs: dict[tuple[int, int], tuple[str, ...]] = {}
        layers = [graph.layer(name) for name in self.order]
        self._live = live_tensors(layers, graph.inputs, graph.outputs)
        self.live_bytes: tuple[int, ...] = tuple(
            sum(self.size_bytes(tensor) for tensor in live) for live in self._live
        )

    def __len__(self) -> int:
        return len(self.order)

    def layers(self, start: int, stop: int) -> tuple[str, ...]:
        """The names of a range of layers."""
        return self.order[start:stop]

    def live(self, position: int) -> tuple[str, ...]:
        """The tensors that cross the place before ``position``; at the end the outputs."""
        return self._live[position]

    def splits(self, position: int) -> tuple[str, ...]:
        """How the layer at ``position`` can be divided."""
        return self._splits[self.order[position]]

    def outputs(self, start: int, stop: int) -> tuple[str, ...]:
        """The tensors of a range that later layers, or the network's outputs, read."""
        outputs = self._outputs.get((start, stop))
        if outputs is None:
            made = [t for t in self._live[stop] if start <= self._made.get(t, -1) < stop]
            outputs = self._outputs[start, stop] = tuple(sorted(made, key=self._listed.__getitem__))
        return outputs

    def rows(self, start: int, stop: int) -> int:
        """Into how many rows a range can be divided: those of its highest output."""
        return max(self.axes.rows(tensor) for tensor in self.outputs(start, stop))

    def columns(self, start: int, stop: int) -> int:
        """Into how many columns a range can be divided beside rows; 0 where it cannot."""
        shapes = [self.graph.tensors[tensor].shape for tensor in self.outputs(start, stop)]
        axes = [self.axes.axis(tensor) for tensor in self.outputs(start, stop)]
        units = [self.axes.unit(tensor) for tensor in self.outputs(start, stop)]
        if any(axis != 2 for axis in axes) or any(unit != 1 for unit in units):
            return 0
        if any(len(shape) != 4 for shape in shapes):
            return 0
        return max(shape[3] for shape in shapes)

    def channel_axis(self, tensor: str) -> int | None:
        """The axis of a tensor that holds channels, if any.

        Along it the weights of its layer are cut; where that has none, a reader sums over it.
        """
        layer = self.graph.producer(tensor)
        axis = None if layer is None else self.axes.channel_axis(layer.name)
        if axis is not None:
            return axis
        read_along = (
            self.axes.input_axis(reader.name)
            for reader in self.graph.readers(tensor)
            if self.graph.nodes[reader.nodes[0]].inputs[0] == tensor
        )
        return next((axis for axis in read_along if axis is not None), None)

    def channels(self, start: int, stop: int) -> int:
        """Into how many channels a range can be divided: those of its only output, or 0."""
        outputs = self.outputs(start, stop)
        layer = self.graph.producer(outputs[0]) if len(outputs) == 1 else None
        axis = None if layer is None else self.axes.channel_axis(layer.name)
        return 0 if axis is None else self.graph.tensors[outputs[0]].shape[axis]

    def input_axis(self, position: int) -> int | None:
        """The axis of a layer's first input over parts of which it can be summed, if any."""
        return self.axes.input_axis(self.order[position])

    def input_channels(self, start: int, stop: int) -> int:
        """Into how many channels the input of a range can be divided; 0 but for one such layer."""
        axis = self.input_axis(start) if stop == start + 1 and start not in self.pins else None
        if axis is None:
            return 0
        layer = self.graph.layer(self.order[start])
        return self.graph.tensors[self.graph.nodes[layer.nodes[0]].inputs[0]].shape[axis]

    def least_crossed(self, places: Iterable[int]) -> list[int]:
        """Places to cut, those first that the fewest tensors cross, then fewest bytes."""
        return sorted(places, key=lambda p: (len(self._live[p]), self.live_bytes[p], p))

    def is_divisible(self, start: int, stop: int) -> bool:
        """Whether a range can be divided in rows: all of its layers can, and none is pinned."""
        return start < stop and all(
            self.kinds[p] == "rows" and p not in self.pins for p in range(start, stop)
        )

    def row_runs(self) -> list[tuple[int, int]]:
        """The longest ranges of layers that can be divided in rows."""
        runs: list[tuple[int, int]] = []
        for position, kind in enumerate(self.kinds):
            if kind != "rows" or position in self.pins:
                continue
            if runs and runs[-1][1] == position:
                runs[-1] = (runs[-1][0], position + 1)
            else:
                runs.append((position, position + 1))
        return runs

    def size_bytes(self, tensor: str) -> int:
        """The size of a whole tensor."""
        return self.graph.size_bytes(tensor)

    def row_bytes(self, tensor: str) -> float:
        """The size of one row of a tensor; the whole size where it has no rows."""
        return self.size_bytes(tensor) / self.axes.rows(tensor)

    def _make_order(self) -> tuple[str, ...]:
        index = {layer.name: place for place, layer in enumerate(self.graph.layers)}
        waits: dict[str, int] = {}
        after: dict[str, list[str]] = {}
        for layer in self.graph.layers:
            before = {maker.name for maker in map(self.graph.producer, layer.inputs) if maker}
            waits[layer.name] = len(before)
            for name in before:
                after.setdefault(name, []).append(layer.name)
        ready = [self._rank(name, index) for name, count in waits.items() if not count]
        heapify(ready)
        order: list[str] = []
        while ready:
            name = heappop(ready)[2]
            order.append(name)
            for other in after.get(name, ()):
                waits[other] -= 1
                if not waits[other]:
                    heappush(ready, self._rank(other, index))
        return tuple(order)

    def _rank(self, name: str, index: Mapping[str, int]) -> tuple[bool, int, str]:
        return (self._kind(name) != "rows", index[name], name)

    def _kind(self, name: str) -> LayerKind:
        splits = self._splits[name]
        if "rows" in splits:
            return "rows"
        return "reduce" if "reduce" in splits else "whole"

    def _find_pins(self, keep_on: Mapping[str, str], requester: str) -> dict[int, str]:
        place = {name: position for position, name in enumerate(self.order)}
        pins: dict[int, str] = {}
        for tensor, device in keep_on.items():
            if tensor not in self.graph.tensors:
                known = ", ".join(self.graph.inputs)
                raise PlanError(
                    f"Tensor '{tensor}' is to be kept on '{device}', but the model has no such"
                    f" tensor. Its inputs are {known}; 'inspect' lists the others.",
                    subject=tensor,
                )
            if device != requester and tensor in (*self.graph.inputs, *self.graph.outputs):
                raise InfeasibleError(
                    f"Tensor '{tensor}' cannot be kept on '{device}': the model's inputs and"
                    f" outputs are on the requester '{requester}'.",
                    subject=tensor,
                )
            producer = self.graph.producer(tensor)
            touching: list[Layer] = [*self.graph.readers(tensor), *([producer] if producer else [])]
            for layer in touching:
                position = place[layer.name]
                if pins.setdefault(position, device) != device:
                    raise InfeasibleError(
                        f"Layer '{layer.name}' touches tensors kept on '{pins[position]}' and on"
                        f" '{device}'. Keep them on one device.",
                        subject=layer.name,
                    )
        return pins
