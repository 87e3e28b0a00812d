"""Layers as fragments of their own, one after the other: what a fragment's borders cost.

A plan that exchanges borders at every layer runs fragments of one layer. Their inputs come from
memory, not from the layer before, and their outputs go there. Run in turn, as a request runs them,
they tell what that costs; run again and again alone, each would find everything in the nearest
cache.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from partita.engine.timing import FragmentTimes
from partita.graph import Graph, Layer
from partita.graph.regions import RegionMap
from partita.graph.splits import RowAxes
from partita.profile.batch import FragmentBatch
from partita.profile.bench import Bench
from partita.profile.data import LayerProfile
from partita.profile.options import Alone, MeasureOptions, MeasureState
from partita.profile.segments import size_segment
from partita.regions import Region

#: Layers are taken evenly over the network, so many of them; their sessions are open at once. Not
#: tuned: more make the fit steadier, and take time and memory.
MOST_LAYERS = 128
#: Layers with more weights say how fast weights are read, not what borders cost. A round number,
#: not tuned.
MOST_WEIGHT_BYTES = 16_000_000
#: Shares of the rows; plans for two to eight devices have parts of these sizes.
SHARES = (0.125, 0.4, 1.0)
#: Longer fragments say little about what comes on top of their layers. Not tuned: a higher limit
#: takes more layers into the fit, and more time.
MOST_S = 0.005
#: Networks with more weights are not run whole. Not tuned: twice this, as the engine holds while it
#: loads, fits in a board of 1 GB.
MOST_WHOLE_BYTES = 256_000_000


def measure_alone(
    network: Network, state: MeasureState, options: MeasureOptions, bench: Bench
) -> list[Alone]:
    """Layers of one input each, at three extents, timed in turn from outside.

    Args:
        network: The network.
        state: What each layer takes among others, and the pace that all times are brought to.
        options: How often.
        bench: Where.
    """
    graph, layers = network.graph, state.layers
    chosen = [layer for layer in graph.layers if _is_telling(graph, layer, layers)]
    step = max(1, -(-len(chosen) // MOST_LAYERS))
    batch = FragmentBatch(graph, network.regions)
    measured: list[Alone] = []
    for share in SHARES:
        parts = [_Part(network, layer, layers[layer.name], share) for layer in chosen]
        parts = [part for part in parts[::step] if 0 < part.layer_s < MOST_S]
        for part in parts:
            batch.add(part.segment)
        timings = batch.time(bench, options, in_turn=True)
        pace = state.reference_s / statistics.median(timings.paces)
        for part, (_, weight_bytes, times) in zip(parts, batch.take(timings), strict=True):
            measured.append(part.describe(_typical_s(times) * pace, weight_bytes))
    return measured


def measure_whole(
    network: Network, state: MeasureState, options: MeasureOptions, bench: Bench
) -> float:
    """Seconds of the whole network as one fragment, 0 for one too large to be held at once.

    Layers that run again and again in small groups find in the caches what in a request came from
    memory, and the least times of each are all quick at once in no run.
    """
    graph = network.graph
    if sum(layer.weight_bytes for layer in graph.layers) > MOST_WHOLE_BYTES:
        return 0.0
    outputs = {tensor: network.regions.whole(tensor) for tensor in graph.outputs}
    layers = [layer.name for layer in graph.layers]
    batch = FragmentBatch(graph, network.regions)
    batch.add(size_segment(graph, network.regions, layers, outputs))
    timings = batch.time(bench, options, in_turn=True)
    return _typical_s(timings.fragments[0]) * state.reference_s / statistics.median(timings.paces)


def _typical_s(times: FragmentTimes) -> float:
    """What a run takes: of processor time, the median is hardly disturbed."""
    return statistics.median(times.walls)


def add_weights(layer: Layer, profile: LayerProfile, weight_s_per_byte: float) -> LayerProfile:
    """A layer's profile with what its weights cost in a request.

    A segment that runs again and again has them in a near cache; in a request other layers ran
    since. Weights that no cache keeps are in the measured times already.
    """
    more_s = cached_weights(layer) * weight_s_per_byte
    samples = tuple(replace(s, seconds=s.seconds + more_s) for s in profile.samples)
    return replace(profile, samples=samples)


def cached_weights(layer: Layer) -> int:
    """Bytes of weights that are near where a layer runs again and again, and not in a request."""
    return layer.weight_bytes if layer.weight_bytes <= MOST_WEIGHT_BYTES else 0


def _is_telling(graph: Graph, layer: Layer, layers: Mapping[str, LayerProfile]) -> bool:
    return (
        len(layer.outputs) == 1
        and layer.weight_bytes <= MOST_WEIGHT_BYTES
        and len(graph.tensors[layer.outputs[0]].shape) > 2
        and bool(layers[layer.name].samples)
    )


@dataclass(frozen=True)
class Network:
    """A network with what its layers' parts are found by."""

    graph: Graph
    axes: RowAxes
    regions: RegionMap


class _Part:
    """One layer at the measured extent that is next to a share of its rows."""

    def __init__(self, network: Network, layer: Layer, profile: LayerProfile, share: float) -> None:
        self._graph, self._regions = network.graph, network.regions
        wanted = share * profile.rows
        sample = min(profile.samples, key=lambda sample: abs(sample.rows - wanted))
        tensor = layer.outputs[0]
        box, axis = self._regions.whole(tensor), network.axes.axis(tensor)
        if axis is not None:
            start = (profile.rows - sample.rows) // 2
            box = box.with_axis(axis, (start, start + sample.rows))
        self.segment = size_segment(self._graph, self._regions, (layer.name,), {tensor: box})
        self.layer_s = sample.seconds
        self.is_blocked = profile.blocked

    def describe(self, seconds: float, weight_bytes: int) -> Alone:
        """The part with its weights and the seconds that it took."""
        read_bytes, write_bytes = (
            self._bytes(self.segment.inputs),
            self._bytes(self.segment.outputs),
        )
        return Alone(seconds, self.layer_s, read_bytes, write_bytes, self.is_blocked, weight_bytes)

    def _bytes(self, boxes: Sequence[tuple[str, Region]]) -> int:
        return sum(self._graph.size_bytes(t) * b.size // self._size(t) for t, b in boxes)

    def _size(self, tensor: str) -> int:
        return max(1, self._regions.whole(tensor).size)
