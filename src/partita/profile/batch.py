"""Fragments that are timed together, with the content that they need."""

from __future__ import annotations

from collections.abc import Iterator

from partita.engine.timing import FragmentTimes, TimedFragment, TimingOrder, Timings
from partita.errors import ClusterError, RunError
from partita.graph import Graph
from partita.graph.fragment import BlobStore
from partita.graph.regions import RegionMap
from partita.profile.bench import Bench
from partita.profile.options import MeasureOptions
from partita.profile.segments import SizedSegment
from partita.profile.trace import write_segment
from partita.program import TensorSpec


class FragmentBatch:
    """Segments written as fragments; emptied by :meth:`take`.

    Args:
        graph: The network.
        regions: Its region map.
    """

    def __init__(self, graph: Graph, regions: RegionMap) -> None:
        self._graph, self._regions = graph, regions
        self._store = BlobStore(graph)
        self._graphs: dict[str, bytes] = {}
        self._fragments: list[tuple[SizedSegment, int, TimedFragment]] = []

    def add(self, segment: SizedSegment, *, timed: bool = True) -> None:
        """Add a segment; ``timed`` from outside, too."""
        fragment = write_segment(self._graph, self._regions, segment, self._store)
        self._graphs[fragment.hash] = fragment.graph
        inputs = tuple(
            TensorSpec(f"i{place}", box.shape, self._graph.tensors[tensor].dtype)
            for place, (tensor, box) in enumerate(segment.inputs)
        )
        blobs = tuple(sorted(fragment.blobs))
        order = TimedFragment(fragment.hash, blobs, inputs, timed)
        self._fragments.append((segment, fragment.weight_bytes, order))

    def time(self, bench: Bench, options: MeasureOptions, *, in_turn: bool = False) -> Timings:
        """What the fragments take.

        Raises:
            ClusterError: The engine refuses a fragment.
            RunError: The bench was lost.
        """
        fragments = tuple(fragment for _, _, fragment in self._fragments)
        order = TimingOrder(fragments, options.repeats, options.rounds, options.budget_s, in_turn)
        try:
            return bench.time(order, self._graphs, self._store.blobs)
        except RunError as error:
            if error.device:
                raise
            raise ClusterError(f"Layers cannot be measured: {error}") from None

    def take(self, timings: Timings) -> Iterator[tuple[SizedSegment, int, FragmentTimes]]:
        """Each segment, its bytes of weights, and what it took; the batch is empty then."""
        fragments, self._fragments = self._fragments, []
        self._graphs = {}
        for (segment, weight_bytes, _), times in zip(fragments, timings.fragments, strict=True):
            yield segment, weight_bytes, times
