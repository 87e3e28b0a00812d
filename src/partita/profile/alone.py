"""Layers as fragments of their own, one after the other: what a fragment's borders cost.

A plan that exchanges borders at every layer runs fragments of one layer. Their inputs come from
memory, not from the layer before, and their outputs go there. Run in turn, as a request runs them,
they tell what that costs; run again and again alone, each would find everything in the nearest
cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partita.engine import Reference
from partita.engine.base import CPU
from partita.graph import Graph, Layer
from partita.graph.fragment import BlobStore
from partita.graph.regions import RegionMap
from partita.graph.splits import RowAxes
from partita.profile.data import LayerProfile
from partita.profile.options import Alone, MeasureOptions
from partita.profile.probe import draw_feeds, open_plain
from partita.profile.segments import size_segment
from partita.profile.trace import write_segment
from partita.regions import Region

#: Layers are taken evenly over the network, so many of them; their sessions are open at once. Not
#: tuned: more make the fit steadier, and take time and memory.
MOST_LAYERS = 64
#: Layers with more weights say how fast weights are read, not what borders cost. A round number,
#: not tuned.
MOST_WEIGHT_BYTES = 16_000_000
#: Shares of the rows; plans for two to eight devices have parts of these sizes.
SHARES = (0.125, 0.4, 1.0)
#: Longer fragments say little about what comes on top of their layers. Not tuned: a higher limit
#: takes more layers into the fit, and more time.
MOST_S = 0.005
#: Runs that are not counted, and least runs that are. Not tuned: more take longer and are less
#: disturbed.
_WARM_UPS, _LEAST_PASSES = 2, 5


def measure_alone(
    graph: Graph,
    axes: RowAxes,
    layers: Mapping[str, LayerProfile],
    options: MeasureOptions,
    reference: tuple[Reference, float],
) -> list[Alone]:
    """Layers of one input each, at three extents, timed in turn from outside.

    Args:
        layers: What each layer takes among others.
        options: Threads, provider, and how often.
        reference: The machine's pace, and the seconds of it that all times are brought to.
    """
    chosen = [layer for layer in graph.layers if _is_telling(graph, layer, layers)]
    step = max(1, -(-len(chosen) // MOST_LAYERS))
    network, store = _Network(graph, axes, graph.remember(RegionMap)), BlobStore(graph)
    measured: list[Alone] = []
    for share in SHARES:
        parts = [_Part(network, layer, layers[layer.name], share) for layer in chosen]
        parts = [part for part in parts[::step] if 0 < part.layer_s < MOST_S]
        runs = [part.open(store, options) for part in parts]
        seconds = _time_in_turn(runs, options, reference)
        measured += [part.describe(took_s) for part, took_s in zip(parts, seconds, strict=True)]
    return measured


def _is_telling(graph: Graph, layer: Layer, layers: Mapping[str, LayerProfile]) -> bool:
    return (
        len(layer.inputs) == len(layer.outputs) == 1
        and layer.weight_bytes <= MOST_WEIGHT_BYTES
        and len(graph.tensors[layer.outputs[0]].shape) > 2
        and bool(layers[layer.name].samples)
    )


@dataclass(frozen=True)
class _Network:
    graph: Graph
    axes: RowAxes
    regions: RegionMap


class _Part:
    """One layer at the measured extent that is next to a share of its rows."""

    def __init__(
        self, network: _Network, layer: Layer, profile: LayerProfile, share: float
    ) -> None:
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

    def open(self, store: BlobStore, options: MeasureOptions) -> Callable[[], None]:
        """A run of the part."""
        fragment = write_segment(self._graph, self._regions, self.segment, store)
        session = open_plain(fragment, store, options)
        dtypes = [self._graph.tensors[tensor].dtype for tensor, _ in self.segment.inputs]
        feeds = draw_feeds(self.segment, dtypes)
        return lambda: session.run(None, feeds)

    def describe(self, seconds: float) -> Alone:
        """The part with the seconds that it took."""
        read_bytes, write_bytes = (
            self._bytes(self.segment.inputs),
            self._bytes(self.segment.outputs),
        )
        return Alone(seconds, self.layer_s, read_bytes, write_bytes, self.is_blocked)

    def _bytes(self, boxes: Sequence[tuple[str, Region]]) -> int:
        return sum(self._graph.size_bytes(t) * b.size // self._size(t) for t, b in boxes)

    def _size(self, tensor: str) -> int:
        return max(1, self._regions.whole(tensor).size)


def _time_in_turn(
    runs: Sequence[Callable[[], Any]], options: MeasureOptions, reference: tuple[Reference, float]
) -> list[float]:
    """The least seconds of each run, all of them in turn, at the reference's pace."""
    is_alone = options.threads == 1 and options.provider == CPU
    clock = time.thread_time if is_alone else time.perf_counter
    for _ in range(_WARM_UPS):
        for run in runs:
            run()
    least = [float("inf")] * len(runs)
    paces = [reference[0].time_s()]
    began_s, passes = time.perf_counter(), 0
    while passes < _LEAST_PASSES or (
        passes < options.repeats and time.perf_counter() - began_s < options.budget_s
    ):
        for place, run in enumerate(runs):
            start_s = clock()
            run()
            least[place] = min(least[place], clock() - start_s)
        passes += 1
    # Only now: between passes it would leave nothing of theirs in the caches.
    paces.append(reference[0].time_s())
    return [seconds * reference[1] / min(paces) for seconds in least]
