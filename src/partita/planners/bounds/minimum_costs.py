"""The least that anything can cost: seconds of layers, delays of links, parts of inputs needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

from partita.cluster import Link
from partita.graph import Graph, Layer
from partita.planners.pricing.evaluator import Evaluator
from partita.regions import Region

#: Extents are looked at in steps of this part of themselves; between them the least is assumed.
_FINENESS = 50
#: Axes are looked at in at most so many blocks.
_MOST_BLOCKS = 48


class _Known:
    """What is known of a graph, whatever the devices: see :class:`MinimumCosts`."""

    def __init__(self, graph: Graph) -> None:
        self.shares: dict[str, dict[str, float]] = {}
        self.covered: dict[tuple[str, str], float] = {}


class MinimumCosts:
    """The least seconds of layers on devices, and of getting there."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.outline = evaluator.outline
        # A tensor may be kept on a device that computes nothing else.
        self.devices = tuple(dict.fromkeys((*evaluator.devices, *self.outline.pins.values())))
        self.layer_s = self._floors()
        self.run_s = [self._run_floor(device) for device in self.devices]
        self.reach_s = self._delays(outward=True)
        self.return_s = self._delays(outward=False)
        hops = [link.latency_s + link.per_message_s for link in evaluator.cluster.links]
        #: The least delay of a message between two devices.
        self.hop_s = min(hops, default=0.0)
        known = evaluator.graph.remember(_Known)
        self._shares, self._covered = known.shares, known.covered
        self.required = self.required_for(evaluator.graph.outputs)

    def _floors(self) -> dict[str, list[float]]:
        """Per layer its least seconds on each device: no less than nothing where time is over.

        The longest layers come first.
        """
        cost, layers = self.evaluator.cost, self.evaluator.graph.layers
        whole = {
            layer.name: {
                name: Region.full(self.evaluator.graph.tensors[name].shape)
                for name in layer.outputs
            }
            for layer in layers
        }
        seconds = {
            name: cost.layer_s(self.devices[0], name, boxes) for name, boxes in whole.items()
        }
        floors = {}
        for layer in sorted(layers, key=lambda layer: -seconds[layer.name]):
            is_late = self.evaluator.budget.is_long_over
            floors[layer.name] = [0.0] * len(self.devices) if is_late else self._layer_floors(layer)
        return {layer.name: floors[layer.name] for layer in layers}

    def _layer_floors(self, layer: Layer) -> list[float]:
        """Per device the least seconds for the layer's whole extent, in any parts."""
        boxes = list(self._parts(layer))
        floors = []
        for device in self.devices:
            floor = float("inf")
            for number, (box, units) in enumerate(boxes):
                following = boxes[number + 1][1] - 1 if number + 1 < len(boxes) else units
                seconds = self.evaluator.cost.layer_s(device, layer.name, box)
                floor = min(floor, seconds / max(units, following))
            floors.append(max(0.0, floor * boxes[-1][1]))
        return floors

    def _parts(self, layer: Layer) -> Iterator[tuple[dict[str, Region], int]]:
        """Yield boxes of growing extent along the rows, and the number of positions in each."""
        graph, axes = self.evaluator.graph, self.outline.axes
        whole = {tensor: Region.full(graph.tensors[tensor].shape) for tensor in layer.outputs}
        tensor = layer.outputs[0]
        axis = axes.axis(tensor)
        extent = 1
        if axis is not None:
            extent, stop = graph.tensors[tensor].shape[axis], 1
            while stop < extent:
                yield {tensor: whole[tensor].with_axis(axis, (0, stop))}, stop
                stop += max(1, stop // _FINENESS)
        yield whole, extent

    def _run_floor(self, device: str) -> float:
        """The least seconds that a run takes beyond its layers."""
        return max(0.0, min(seconds for seconds, _ in self._beyond_layers(device)))

    def layer_run_s(self, device: int) -> float:
        """The least seconds per layer that a run takes on a device beyond the layer itself."""
        found = self._beyond_layers(self.devices[device])
        return max(0.0, min(seconds / count for seconds, count in found))

    def _beyond_layers(self, device: str) -> Iterator[tuple[float, int]]:
        """Yield what runs of all layers, and of each, take beyond them, and how many those are."""
        outline, cost = self.outline, self.evaluator.cost
        for start, stop in [(0, len(outline)), *((p, p + 1) for p in range(len(outline)))]:
            boxes = {
                tensor: Region.full(outline.graph.tensors[tensor].shape)
                for tensor in outline.outputs(start, stop)
            }
            work = outline.works.stage(outline.layers(start, stop), boxes)
            alone = sum(cost.layer_s(device, one.layer, dict(one.boxes)) for one in work.layers)
            yield cost.work_s(device, work) - alone, stop - start

    def _delays(self, *, outward: bool) -> list[float]:
        """Per device the least delay of a message from or to the requester, by any way."""
        cluster = self.evaluator.cluster
        delays = dict.fromkeys(cluster.names, float("inf"))
        delays[self.evaluator.requester] = 0.0
        before: dict[str, float] = {}
        while delays != before:
            before = dict(delays)
            for link in cluster.links:
                ends = (link.source, link.target) if outward else (link.target, link.source)
                hop = link.latency_s + link.per_message_s
                delays[ends[1]] = min(delays[ends[1]], delays[ends[0]] + hop)
        return [delays[device] for device in self.devices]

    def fluid_s(self, layers: Sequence[str]) -> float:
        """The seconds of layers that all devices share at once."""
        total = 0.0
        for name in layers:
            rates = [1.0 / one if one > 0 else float("inf") for one in self.layer_s[name]]
            total += self.required[name] / sum(rates)
        return total

    def shared_s(self) -> float:
        """What no plan takes less than: the busiest device's seconds, sharing all layers freely.

        By duality: with any weights of devices that sum to one, no assignment has a busiest device
        below the sum over layers of the least weighted seconds. With weights by speed that is near.
        """
        alone = [
            sum(self.layer_s[name][d] * part for name, part in self.required.items())
            for d in range(len(self.devices))
        ]
        if min(alone) <= 0:
            return 0.0
        total = sum(1 / seconds for seconds in alone)
        weights = [1 / seconds / total for seconds in alone]
        return sum(
            part * min(w * s for w, s in zip(weights, self.layer_s[name], strict=True))
            for name, part in self.required.items()
        )

    def required_for(self, tensors: Sequence[str], last: Layer | None = None) -> dict[str, float]:
        """Return per layer the least part of its output that must be computed at all.

        Less than all where readers step over rows or columns that nobody needs.

        Args:
            tensors: What is wanted, whole.
            last: The layer after which nothing is computed; None for the network's last.
        """
        graph = self.outline.graph
        required: dict[str, float] = {}
        stop = len(graph.layers) if last is None else graph.layer_index(last.name) + 1
        for layer in reversed(graph.layers[:stop]):
            part = 0.0
            for tensor in layer.outputs:
                if tensor in tensors:
                    part = 1.0
                for reader in graph.readers(tensor):
                    if part < 1.0 and required.get(reader.name):
                        part = max(part, self._required_by(reader, tensor, required[reader.name]))
            required[layer.name] = part
        return required

    def _required_by(self, reader: Layer, tensor: str, part: float) -> float:
        """The part of a tensor that a reader needs, itself computed in ``part``."""
        share = self.needed_share(reader, tensor)
        if part < 1.0 or share >= 1.0:
            return share * part
        if len(reader.outputs) != 1:
            return share
        covered = self._covered.get((reader.name, tensor))
        if covered is None and self.evaluator.budget.is_long_over:
            return 0.0
        if covered is None:
            covered = self._covered[reader.name, tensor] = self._cover(reader, tensor)
        return covered

    def _cover(self, reader: Layer, tensor: str) -> float:
        """Return the part of a tensor that all elements of a reader need together."""
        regions = self.outline.works.regions
        whole = regions.whole(reader.outputs[0])
        covered = _least_density(reader, whole.size / max(1, regions.whole(tensor).size))
        for axis, extent in enumerate(whole.shape):
            total = 0
            for span in _blocks(extent):
                needs = regions.walk(reader, {reader.outputs[0]: whole.with_axis(axis, span)}).needs
                total += needs[tensor].size if tensor in needs else 0
            covered *= min(1.0, total / max(1, regions.whole(tensor).size))
        return covered

    def needed_share(self, reader: Layer, tensor: str) -> float:
        """The least part of an input that a reader needs per part of its output."""
        found = self._shares.get(reader.name)
        if found is None and self.evaluator.budget.is_long_over:
            return 0.0
        if found is None:
            found = self._shares[reader.name] = self._needed_shares(reader)
        return found.get(tensor, 0.0)

    def _needed_shares(self, reader: Layer) -> dict[str, float]:
        """Multiply over the axes of the output, as tiles may divide it along several."""
        if len(reader.outputs) != 1:
            return {}
        regions = self.outline.works.regions
        whole = regions.whole(reader.outputs[0])
        shares = dict.fromkeys(reader.inputs, 1.0)
        for axis, extent in enumerate(whole.shape):
            least = dict.fromkeys(reader.inputs, 1.0)
            for start, stop in _samples(extent):
                box = whole.with_axis(axis, (start, stop))
                needs = regions.walk(reader, {reader.outputs[0]: box}).needs
                for tensor in reader.inputs:
                    size = needs[tensor].size if tensor in needs else 0
                    part = size / max(1, regions.whole(tensor).size)
                    least[tensor] = min(least[tensor], part * extent / (stop - start))
            shares = {tensor: shares[tensor] * least[tensor] for tensor in shares}
        return shares


def _blocks(extent: int) -> list[tuple[int, int]]:
    """Consecutive parts of an axis, single positions where there are few."""
    cuts = sorted({at * extent // _MOST_BLOCKS for at in range(_MOST_BLOCKS + 1)})
    return list(pairwise(range(extent + 1) if extent <= _MOST_BLOCKS else cuts))


def _least_density(reader: Layer, growth: float) -> float:
    """The least part of a needed box that is truly needed: windows may step over rows."""
    if reader.window is None:
        return min(1.0, growth)
    steps = zip(reader.window.kernel, reader.window.stride, strict=True)
    return prod(min(1.0, kernel / stride) for kernel, stride in steps)


def _samples(extent: int) -> set[tuple[int, int]]:
    """Parts of an axis, small and large, at both ends and in the middle."""
    middle = extent // 2
    if extent < 2:
        return set()
    return {
        (0, 1), (extent - 1, extent), (middle, middle + 1), (0, middle), (middle, extent),
        (0, extent - 1), (1, extent),
    }  # fmt: skip


def peak_bytes_per_s(link: Link) -> float:
    """The highest rate that a link ever has; no port on its way is faster."""
    rate = max((rate for _, rate in link.trace), default=link.bandwidth_bytes_per_s)
    return min([rate, *(port.bytes_per_s for port in link.ports)])
