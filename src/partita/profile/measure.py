"""Measuring a model on this machine."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from partita.engine.timing import FragmentTimes
from partita.graph import Graph
from partita.graph.outputs import refuse_odd_outputs
from partita.graph.regions import RegionMap
from partita.graph.splits import row_axes
from partita.profile.alone import Network, add_weights, cached_weights, measure_alone, measure_whole
from partita.profile.batch import FragmentBatch
from partita.profile.bench import Bench, ThisMachine
from partita.profile.borders import Borders, cross_whole, pass_on
from partita.profile.data import LayerProfile, Profile, Sample
from partita.profile.fit import fit_runs, fit_wire
from partita.profile.integer import add_integer_layers, eight_bits
from partita.profile.options import (
    Border,
    Loading,
    MeasureOptions,
    MeasureState,
    Progress,
    Wall,
    load_state,
    save_state,
)
from partita.profile.segments import (
    SizedSegment,
    choose_rows,
    few_rows,
    make_segments,
    middle_rows,
    size_segment,
)
from partita.profile.trace import FragmentRun, read_trace
from partita.regions import Region

#: Sessions that are open at the same time; each holds its segment's weights. The six extents of one
#: segment fit in; not tuned.
_BATCH = 8
#: With fewer undisturbed runs than this all are taken and corrected. Not tuned.
_MIN_CLEAN = 3


def measure_profile(
    graph: Graph,
    options: MeasureOptions | None = None,
    progress: Progress | None = None,
    bench: Bench | None = None,
) -> Profile:
    """The profile of ``graph`` on this machine, or on another.

    Groups of layers run as fragments, at several numbers of output rows, and the engine's own
    profiler says what each node takes, so that the figures hold for layers in company. What a
    fragment costs beyond its layers is fitted to runs timed from outside.

    Args:
        progress: Called before each segment.
        bench: Where fragments are timed, with its own threads and provider; by default here.

    Raises:
        ModelError: An output's shape depends on the data, or is empty; or nothing can be quantised
            that is to be measured so.
        ClusterError: The provider is missing, a layer cannot run, or a file cannot be written.
    """
    refuse_odd_outputs(graph)
    options = options or MeasureOptions()
    bench = bench or ThisMachine(options.threads, options.provider)
    profile = _measure(graph, options, bench, progress)
    if options.integer:
        integer = _measure(eight_bits(graph), options, bench, progress)
        profile = add_integer_layers(profile, integer)
    return profile


def _measure(
    graph: Graph, options: MeasureOptions, bench: Bench, progress: Progress | None
) -> Profile:
    state = load_state(graph, options, bench)
    progress = progress or (lambda done, total, what: None)
    measurement = _Measurement(graph, options, bench, state)
    segments = make_segments(graph, measurement.axes, whole=options.rows == "all")
    for place, layers in enumerate(segments):
        progress(place, len(segments), layers[0])
        if any(name not in state.layers for name in layers):
            measurement.measure(layers)
            measurement.finish(layers)
            save_state(state, options)
    measurement.measure_alone()
    profile = measurement.conclude()
    progress(len(segments), len(segments), "done")
    if options.unfinished is not None:
        options.unfinished.unlink(missing_ok=True)
    return profile


class _Measurement:
    """Measures segments one after the other and collects what comes out."""

    def __init__(
        self, graph: Graph, options: MeasureOptions, bench: Bench, state: MeasureState
    ) -> None:
        self.graph = graph
        self.options = options
        self.bench = bench
        self.state = state
        self.axes = row_axes(graph)
        self.regions = graph.remember(RegionMap)
        self.samples: dict[str, dict[int, Sample]] = {}
        self.blocked: set[str] = set()
        state.reference_s = state.reference_s or bench.facts.reference_s
        #: Turns seconds at the machine's present pace into seconds at the profile's.
        self.pace = 1.0

    def measure(self, layers: Sequence[str]) -> None:
        """Measure one segment at all its extents."""
        batch = FragmentBatch(self.graph, self.regions)
        segments = self.sized_segments(layers)
        for at in range(0, len(segments), _BATCH):
            some = segments[at : at + _BATCH]
            timed = {0, len(some) // 2, len(some) - 1}
            for place, segment in enumerate(some):
                batch.add(segment, timed=place in timed)
            timings = batch.time(self.bench, self.options)
            self.pace = self.state.reference_s / statistics.median(timings.paces)
            for segment, weight_bytes, times in batch.take(timings):
                self.collect(segment, weight_bytes, times)

    def measure_alone(self) -> None:
        """Measure layers as fragments of their own, and all as one, if that is not done."""
        state = self.state
        network = Network(self.graph, self.axes, self.regions)
        if not state.alone:
            state.alone = measure_alone(network, state, self.options, self.bench)
            save_state(state, self.options)
        if state.whole_s is None:
            state.whole_s = measure_whole(network, state, self.options, self.bench)
            save_state(state, self.options)

    def conclude(self) -> Profile:
        """The profile of all that was measured."""
        graph, bench, state = self.graph, self.bench, self.state
        facts = bench.facts
        weight_bytes = sum(map(cached_weights, graph.layers))
        crossed = cross_whole(graph, state.layers)
        fitted = fit_runs(
            state, facts.copy_s_per_byte, weight_bytes, crossed, integer=graph.integer
        )
        weight_s = fitted.weight_s_per_byte / fitted.runs.factor
        return Profile(
            device=self.options.device,
            machine=facts.machine,
            threads=bench.threads,
            engine=facts.engine,
            provider=bench.provider,
            precision="int8" if graph.integer else graph.number_type,
            model=graph.name,
            model_hash=graph.hash,
            layers={
                layer.name: add_weights(layer, state.layers[layer.name], weight_s)
                for layer in graph.layers
            },
            runs=fitted.runs,
            wires={wire: fit_wire(times) for wire, times in facts.wires.items()},
            reference_s=state.reference_s,
        )

    def sized_segments(self, layers: Sequence[str]) -> list[SizedSegment]:
        """The segment at each extent, each set of boxes once.

        Halos make the first layers compute many rows where the last one makes few: the first layers
        are measured at few rows without those behind them.
        """
        full = self._most_rows(layers)
        segments = self._at_rows(layers, choose_rows(full, self.options.rows))
        least = self._least_rows(segments)
        for count in range(len(layers) - 1, 0, -1):
            last = self.graph.layer(layers[count - 1])
            few = few_rows(self.rows(last.outputs[0]))
            if least[last.name] <= few:
                continue
            front = layers[:count]
            more = self._at_rows(front, [few_rows(self._most_rows(front))])
            segments += more
            least |= self._least_rows(more)
        return segments

    def _most_rows(self, layers: Sequence[str]) -> int:
        """The most rows of what a group of layers makes for others."""
        return max(self.rows(tensor) for tensor in self._outputs_of(layers))

    def _outputs_of(self, layers: Sequence[str]) -> tuple[str, ...]:
        return self.graph.outputs_of([self.graph.layer(name) for name in layers])

    def _at_rows(self, layers: Sequence[str], extents: Sequence[int]) -> list[SizedSegment]:
        """A group of layers at each extent of its outputs, each set of boxes once."""
        outputs, full = self._outputs_of(layers), self._most_rows(layers)
        segments: dict[object, SizedSegment] = {}
        for rows in extents:
            wanted = {
                tensor: middle_rows(self.graph.tensors[tensor], self.axes.axis(tensor), rows / full)
                for tensor in outputs
            }
            segment = size_segment(self.graph, self.regions, layers, wanted)
            segments.setdefault(segment.outputs, segment)
        return list(segments.values())

    def _least_rows(self, segments: Sequence[SizedSegment]) -> dict[str, int]:
        """The fewest rows that each layer makes in any of the segments."""
        least: dict[str, int] = {}
        for segment in segments:
            for name, boxes in segment.layers:
                rows = self.box_rows(boxes)
                least[name] = min(rows, least.get(name, rows))
        return least

    def rows(self, tensor: str) -> int:
        """The tensor's extent along its row axis; 1 where it has none."""
        axis = self.axes.axis(tensor)
        return 1 if axis is None else self.graph.tensors[tensor].shape[axis]

    def collect(self, segment: SizedSegment, weight_bytes: int, times: FragmentTimes) -> None:
        """Add what one fragment took."""
        trace = read_trace(times.runs, segment)
        nodes_s = 0.0
        runs = Quiet.of(trace.runs, times.used)
        passing = self._passing(segment, trace.blocked)
        for place, (name, boxes) in enumerate(segment.layers):
            taken = [run.layers[place] for run in trace.runs]
            seconds = runs.typical_s([run.layers[place] for run in runs.runs]) * self.pace
            nodes_s += seconds
            if place in passing:  # priced where a fragment has such a pass
                passes_s = runs.typical_s([run.sums[place] for run in runs.runs]) * self.pace
                seconds = max(0.0, seconds - passes_s)
            sample = Sample(self.box_rows(boxes), seconds, len(taken), _spread_s(taken))
            known = self.samples.setdefault(name, {})
            best = known.get(sample.rows)
            if best is None or sample.seconds < best.seconds:
                known[sample.rows] = sample
            if place in trace.blocked:
                self.blocked.add(name)
        for collected, borders in (
            (self.state.enter, [run.enter for run in runs.runs]),
            (self.state.leave, [run.leave for run in runs.runs]),
        ):
            conversions = [
                Border(b.size_bytes, b.seconds * self.pace) for b in _fold_borders(borders, runs)
            ]
            collected += conversions
            nodes_s += sum(border.seconds for border in conversions)
        if times.walls:
            wall_s = min(times.walls) * self.pace
            self.state.walls.append(Wall(wall_s, nodes_s, len(segment.layers)))
        self.state.loads.append(Loading(weight_bytes, times.load_s))

    def _passing(self, segment: SizedSegment, blocked: Set[int]) -> set[int]:
        """Places of layers whose sums are passes of their own in this segment."""
        names = tuple(name for name, _ in segment.layers)
        borders = Borders(self.graph, pass_on(self.graph, {names[place] for place in blocked}))
        crossings = borders.crossings(names, tuple(tensor for tensor, _ in segment.outputs))
        makers = (self.graph.producer(tensor) for tensor in crossings.passes)
        return {names.index(maker.name) for maker in makers if maker is not None}

    def box_rows(self, boxes: dict[str, Region]) -> int:
        """The rows of a layer's first output."""
        tensor, box = next(iter(boxes.items()))
        axis = self.axes.axis(tensor)
        return 1 if axis is None else box.shape[axis]

    def finish(self, layers: Iterable[str]) -> None:
        """Write the layers' samples into the state."""
        for name in layers:
            layer = self.graph.layer(name)
            samples = self.samples.pop(name, {})
            self.state.layers[name] = LayerProfile(
                kind=layer.kind,
                rows=self.rows(layer.outputs[0]),
                blocked=name in self.blocked,
                samples=tuple(samples[rows] for rows in sorted(samples)),
            )


@dataclass(frozen=True)
class Quiet:
    """Runs that other processes did not disturb, or else all runs, corrected.

    Attributes:
        runs: The runs to take times from.
        scale: What the least times are multiplied by; 1 where the runs are undisturbed.
    """

    runs: list[FragmentRun]
    scale: float

    @classmethod
    def of(cls, runs: list[FragmentRun], used: Sequence[float]) -> Quiet:
        """The undisturbed runs when there are enough of them.

        In an undisturbed run the nodes take no longer than the processor worked, by what it did
        beside them. A disturbance lies in one node or the other of a run: each node's least time of
        all runs is nearest to its own, and all together take no more than the least processor time.

        Args:
            used: Processor seconds of each run.
        """
        clean = [run for run, used_s in zip(runs, used, strict=True) if run.total_s <= used_s]
        if len(clean) >= min(_MIN_CLEAN, len(runs)):
            return cls(clean, 1.0)
        least_s = sum(map(min, zip(*(run.seconds for run in runs), strict=False)))
        return cls(runs, min(1.0, min(used) / least_s) if least_s else 1.0)

    def typical_s(self, times: Sequence[float]) -> float:
        """The least of times, corrected where the runs were disturbed."""
        return min(times) * self.scale


def _fold_borders(runs: Sequence[Sequence[tuple[int, float]]], quiet: Quiet) -> list[Border]:
    """Each conversion of a fragment once, over all runs."""
    width = min((len(run) for run in runs), default=0)
    return [
        Border(runs[0][k][0], quiet.typical_s([run[k][1] for run in runs])) for k in range(width)
    ]


def _spread_s(times: Sequence[float]) -> float:
    if len(times) < 2:
        return 0.0
    low, _, high = statistics.quantiles(times, n=4)
    return high - low
