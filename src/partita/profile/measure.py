"""Measuring a model on this machine."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort

from partita.engine import Reference
from partita.graph import Graph
from partita.graph.fragment import BlobStore
from partita.graph.regions import RegionMap
from partita.graph.splits import row_axes
from partita.profile.alone import measure_alone
from partita.profile.data import LayerProfile, Profile, Sample
from partita.profile.fit import fit_runs, measure_wires
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
from partita.profile.probe import ProfiledFragment, open_fragment
from partita.profile.segments import (
    SizedSegment,
    choose_rows,
    make_segments,
    middle_rows,
    size_segment,
)
from partita.profile.trace import FragmentRun, Trace, write_segment
from partita.regions import Region

#: Sessions that are open at the same time; each holds its segment's weights. The six extents of one
#: segment fit in; not tuned.
_BATCH = 8
#: A run is undisturbed when its thread had the processor for this share of the time. Not tuned: a
#: higher share leaves fewer runs, a lower one lets disturbed ones in.
_CLEAN_SHARE = 0.97
#: With fewer undisturbed runs than this all are taken and corrected. Not tuned.
_MIN_CLEAN = 3
#: Times that the reference is timed before all else; the least counts. Not tuned.
_REFERENCE_ROUNDS = 5


def measure_profile(
    graph: Graph, options: MeasureOptions | None = None, progress: Progress | None = None
) -> Profile:
    """The profile of ``graph`` on this machine.

    Groups of layers run as fragments, at several numbers of output rows, and the engine's own
    profiler says what each node takes, so that the figures hold for layers in company. What a
    fragment costs beyond its layers is fitted to runs timed from outside.

    Args:
        progress: Called before each segment.

    Raises:
        ClusterError: The provider is missing, a layer cannot run, or a file cannot be written.
    """
    options = options or MeasureOptions()
    state = load_state(graph, options)
    with tempfile.TemporaryDirectory(prefix="partita-profile-") as folder:
        measurement = _Measurement(graph, options, Path(folder), state)
        segments = make_segments(graph, measurement.axes, whole=options.rows == "all")
        for place, layers in enumerate(segments):
            if progress is not None:
                progress(place, len(segments), layers[0])
            if any(name not in state.layers for name in layers):
                measurement.measure(layers)
                measurement.finish(layers)
                save_state(state, options)
    measurement.measure_alone()
    profile = Profile(
        device=options.device,
        machine=f"{platform.machine()} {platform.processor() or platform.system()}".strip(),
        threads=options.threads,
        engine=f"onnxruntime {ort.__version__}",
        provider=options.provider,
        precision=_precision(graph),
        model=graph.name,
        model_hash=graph.hash,
        layers={layer.name: state.layers[layer.name] for layer in graph.layers},
        runs=fit_runs(state),
        wires=measure_wires(),
        reference_s=state.reference_s,
    )
    if progress is not None:
        progress(len(segments), len(segments), "done")
    if options.unfinished is not None and options.unfinished.exists():
        os.unlink(options.unfinished)
    return profile


def _precision(graph: Graph) -> str:
    return graph.tensors[graph.layers[0].outputs[0]].dtype if graph.layers else "float32"


class _Measurement:
    """Measures segments one after the other and collects what comes out."""

    def __init__(
        self, graph: Graph, options: MeasureOptions, folder: Path, state: MeasureState
    ) -> None:
        self.graph = graph
        self.options = options
        self.state = state
        self.folder = folder
        self.axes = row_axes(graph)
        self.regions = graph.remember(RegionMap)
        self.samples: dict[str, dict[int, Sample]] = {}
        self.blocked: set[str] = set()
        self.reference = Reference()
        if not state.reference_s:
            state.reference_s = min(self.reference.time_s() for _ in range(_REFERENCE_ROUNDS))
        #: Turns seconds at the machine's present pace into seconds at the profile's.
        self.pace = 1.0

    def measure(self, layers: Sequence[str]) -> None:
        """Measure one segment at all its extents."""
        store = BlobStore(self.graph)
        segments = self.sized_segments(layers)
        for at in range(0, len(segments), _BATCH):
            batch = segments[at : at + _BATCH]
            timed = {0, len(batch) // 2, len(batch) - 1}
            probes = [
                self.open(segment, store, timed=place in timed)
                for place, segment in enumerate(batch)
            ]
            for probe in probes:
                probe.warm_up(self.options)
            paces = [self.reference.time_s()]
            for _ in range(self.options.rounds):
                for probe in probes:
                    probe.run_round()
                paces.append(self.reference.time_s())
            self.pace = self.state.reference_s / min(paces)
            for probe in probes:
                self.collect(probe, probe.finish())

    def measure_alone(self) -> None:
        """Measure layers as fragments of their own, if that is not done."""
        state = self.state
        if not state.alone:
            pace = (self.reference, state.reference_s)
            state.alone = measure_alone(self.graph, self.axes, state.layers, self.options, pace)
            save_state(state, self.options)

    def sized_segments(self, layers: Sequence[str]) -> list[SizedSegment]:
        """The segment at each extent, each set of boxes once."""
        outputs = self.graph.outputs_of([self.graph.layer(name) for name in layers])
        full = max(self.rows(tensor) for tensor in outputs)
        segments: dict[object, SizedSegment] = {}
        for rows in choose_rows(full, self.options.rows):
            wanted = {
                tensor: middle_rows(self.graph.tensors[tensor], self.axes.axis(tensor), rows / full)
                for tensor in outputs
            }
            segment = size_segment(self.graph, self.regions, layers, wanted)
            segments.setdefault(segment.outputs, segment)
        return list(segments.values())

    def rows(self, tensor: str) -> int:
        """The tensor's extent along its row axis; 1 where it has none."""
        axis = self.axes.axis(tensor)
        return 1 if axis is None else self.graph.tensors[tensor].shape[axis]

    def open(self, segment: SizedSegment, store: BlobStore, *, timed: bool) -> ProfiledFragment:
        """The segment as a fragment with its sessions."""
        fragment = write_segment(self.graph, self.regions, segment, store)
        dtypes = [self.graph.tensors[tensor].dtype for tensor, _ in segment.inputs]
        return open_fragment(segment, fragment, store, (self.options, self.folder, timed), dtypes)

    def collect(self, probe: ProfiledFragment, trace: Trace) -> None:
        """Add what one probe measured."""
        nodes_s = 0.0
        runs = Quiet.of(trace.runs, probe.shares)
        for place, (name, boxes) in enumerate(probe.segment.layers):
            times = [run.layers[place] for run in trace.runs]
            seconds = runs.typical_s([run.layers[place] for run in runs.runs])
            seconds *= self.pace
            sample = Sample(self.box_rows(boxes), seconds, len(times), _spread_s(times))
            nodes_s += sample.seconds
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
        if probe.walls:
            self.state.walls.append(
                Wall(min(probe.walls) * self.pace, nodes_s, len(probe.segment.layers))
            )
        self.state.loads.append(Loading(probe.weight_bytes, probe.load_s))

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
        shares: Processor time over time of day of each; 1 for all where they are undisturbed.
    """

    runs: list[FragmentRun]
    shares: list[float]

    @classmethod
    def of(cls, runs: list[FragmentRun], shares: Sequence[float]) -> Quiet:
        """The undisturbed runs when there are enough of them."""
        paired = list(zip(runs, shares, strict=True))
        clean = [run for run, share in paired if share >= _CLEAN_SHARE]
        if len(clean) >= min(_MIN_CLEAN, len(runs)):
            return cls(clean, [1.0] * len(clean))
        return cls(runs, list(shares))

    def typical_s(self, times: Sequence[float]) -> float:
        """The least of undisturbed times; the median of corrected ones."""
        corrected = [time * share for time, share in zip(times, self.shares, strict=True)]
        return min(corrected) if min(self.shares) == 1.0 else statistics.median(corrected)


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
