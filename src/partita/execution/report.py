"""What happened, or will happen: one type for predicted and measured runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from partita.execution.histograms import TimeHistogram
from partita.program import Compute, Load, Program, Receive, Send

#: Of the seconds that steps take.
QUANTILES = (0.5, 0.9, 0.99)


class Span(msgspec.Struct, frozen=True):
    """One thing that one lane of one device did.

    Attributes:
        lane: ``compute``, ``receive``, ``deliver``, ``load``, or ``send:<target>``.
        request: Number of the request, from 0; -1 for a ``Load``.
        step: The program's step id.
        start_s: Seconds since the run's first input was fed, on the leader's clock.
    """

    device: str
    lane: str
    step: int
    label: str
    request: int
    start_s: float
    end_s: float


class DeviceUse(msgspec.Struct, frozen=True):
    """How busy a device's compute lane was, and the most memory that it held.

    Predicted and measured for worker processes it is what they hold beyond an idle one; simulated
    without a cost model, or within one process, the bytes of weights and pieces. None where nobody
    knows: a device that was lost did not tell.
    """

    name: str
    busy_s: float | None = None
    peak_memory_bytes: int | None = None


class LinkUse(msgspec.Struct, frozen=True):
    """Payload bytes that went over a link, and how long its sending lane was busy.

    Attributes:
        busy_s: None where nobody knows: a send to a real network only fills a buffer.
    """

    source: str
    target: str
    bytes: int
    busy_s: float | None


class QueueUse(msgspec.Struct, frozen=True):
    """What steps found before them on a lane when they became ready.

    Attributes:
        lane: As in :class:`Span`.
        found: How many steps found 0, 1, 2-3, 4-7 and so on others there, waiting or at work.
    """

    device: str
    lane: str
    found: tuple[int, ...]


class StepUse(msgspec.Struct, frozen=True):
    """How often a ``Compute`` step ran, and quantiles of the seconds it took, to 2 %."""

    device: str
    step: int
    label: str
    count: int
    p50_s: float
    p90_s: float
    p99_s: float


class Report(msgspec.Struct, frozen=True):
    """One run, predicted or measured.

    Attributes:
        latencies_s: Per request, in order: from its feed to its delivery.
        makespan_s: First feed to last delivery.
        spans: What each lane did when; empty where tracing was off.
        queues: Of lanes that had steps; in a measured run since the deployment.
        steps: Of each ``Compute`` step that ran, in the order of the program.
    """

    planner: str
    seed: int
    latencies_s: tuple[float, ...]
    makespan_s: float
    devices: tuple[DeviceUse, ...]
    links: tuple[LinkUse, ...]
    spans: tuple[Span, ...] = ()
    queues: tuple[QueueUse, ...] = ()
    steps: tuple[StepUse, ...] = ()

    def __repr__(self) -> str:
        count, mean_s = len(self.latencies_s), self.mean_s if self.latencies_s else 0.0
        return f"Report({self.planner!r}, {count} requests, {mean_s:.4g} s on average)"

    @property
    def images_per_second(self) -> float:
        """Requests answered per second of the run."""
        return len(self.latencies_s) / self.makespan_s if self.makespan_s > 0 else 0.0

    def quantile_s(self, fraction: float) -> float:
        """The latency that ``fraction`` of the requests do not exceed (nearest rank)."""
        ordered = sorted(self.latencies_s)
        rank = math.ceil(fraction * len(ordered))
        return ordered[max(rank, 1) - 1]

    @property
    def mean_s(self) -> float:
        """Mean latency."""
        return sum(self.latencies_s) / len(self.latencies_s)


class ReportBuilder:
    """Adds up what lanes did, one span at a time, to a :class:`Report`.

    Args:
        program: What runs; gives each step its lane, label and bytes.
        keep_spans: Whether the report lists the spans, or only their sums.
    """

    def __init__(
        self, program: Program, *, planner: str = "", seed: int = 0, keep_spans: bool = True
    ) -> None:
        self._program = program
        self._planner = planner
        self._seed = seed
        self._keep_spans = keep_spans
        self._spans: list[Span] = []
        self._busy_s = {part.device: 0.0 for part in program.devices}
        self._links: dict[tuple[str, str], list[float]] = {}
        self._links_of: dict[int, tuple[str, str, int]] = {}
        self._lanes: dict[int, tuple[str, str, str]] = {}
        self._took: dict[int, TimeHistogram] = {}
        self._note_steps()

    def _note_steps(self) -> None:
        streams = {stream.id: stream for stream in self._program.streams}
        for part in self._program.devices:
            for step in part.steps:
                lane, label = type(step).__name__.lower(), ""
                if isinstance(step, Compute):
                    label = step.label
                    self._took[step.id] = TimeHistogram()
                elif isinstance(step, Load):
                    label = f"fragment {step.fragment}"
                elif isinstance(step, Send | Receive):
                    stream = streams[step.stream]
                    label = stream.tensor
                    if isinstance(step, Send):
                        lane = f"send:{stream.target}"
                        link = (stream.source, stream.target)
                        self._links_of[step.id] = (*link, stream.wire_bytes)
                        self._links.setdefault(link, [0, 0.0])
                self._lanes[step.id] = (part.device, lane, label)

    def record(self, step: int, request: int, start_s: float, end_s: float) -> None:
        """Add one step that was done; ``request`` is -1 for a ``Load``.

        Raises:
            KeyError: The program has no such step.
        """
        device, lane, label = self._lanes[step]
        if lane == "compute":
            self._busy_s[device] += end_s - start_s
            self._took[step].add(end_s - start_s)
        elif step in self._links_of:
            source, target, nbytes = self._links_of[step]
            sums = self._links[source, target]
            sums[0] += nbytes
            sums[1] += end_s - start_s
        if self._keep_spans:
            self._spans.append(Span(device, lane, step, label, request, start_s, end_s))

    def build(
        self,
        latencies_s: Sequence[float],
        makespan_s: float,
        memory_bytes: Mapping[str, int],
        queues: Iterable[QueueUse] = (),
    ) -> Report:
        """The report of all that was recorded.

        Args:
            memory_bytes: Per device, the most bytes held at one time.
            queues: Of lanes that had steps.
        """
        devices = tuple(
            DeviceUse(name, busy_s, memory_bytes.get(name, 0))
            for name, busy_s in self._busy_s.items()
        )
        links = tuple(
            LinkUse(source, target, int(nbytes), busy_s)
            for (source, target), (nbytes, busy_s) in sorted(self._links.items())
        )
        spans = tuple(sorted(self._spans, key=lambda s: (s.start_s, s.end_s, s.step, s.request)))
        return Report(
            self._planner,
            self._seed,
            tuple(latencies_s),
            makespan_s,
            devices,
            links,
            spans,
            tuple(queues),
            tuple(self._list_steps()),
        )

    def _list_steps(self) -> Iterable[StepUse]:
        for step, took in self._took.items():
            if took.count:
                device, _, label = self._lanes[step]
                quantiles = (took.quantile_s(fraction) for fraction in QUANTILES)
                yield StepUse(device, step, label, took.count, *quantiles)
