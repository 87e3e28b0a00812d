"""The latency of a single request, fast: planners ask for it thousands of times.

The same events in the same order as :func:`~partita.simulation.simulate.simulate` with one request,
without what one request cannot show: credits, turns, memory and spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from partita.errors import RunError
from partita.execution import Durations, LinkClock, LinkClocks
from partita.program import (
    Compute,
    Deliver,
    DeviceProgram,
    Feed,
    Input,
    Program,
    Receive,
    Send,
    Stream,
    is_active,
)
from partita.simulation.order import ARRIVED, ENCODED, FED, FINISHED


def latency_s(program: Program, durations: Durations) -> float:
    """Return the seconds from the first request's admission to its answer.

    Equal to the latency that :func:`~partita.simulation.simulate.simulate` gives for one request.

    Raises:
        KeyError: ``durations`` lacks a ``Compute`` step.
        PlanError: The program sends over a link that ``durations`` lacks.
        RunError: The program never delivers.
    """
    tables = _Tables(program, durations)
    for part in program.devices:
        tables.add_device(part)
    tables.connect()
    return _run(tables, durations.admit_s + durations.feed_s)


class _Tables:
    """All steps that the request takes, numbered over all devices in program order.

    Attributes:
        missing: Per step, buffers that it waits for.
        readers: Per step, the steps that read what it writes, once per buffer.
        clocks: Per step, the link of a ``Send``.
    """

    def __init__(self, program: Program, durations: Durations) -> None:
        self.durations = durations
        self.links = LinkClocks(durations.links)
        self.route = (0,) * len(program.routes)
        self.streams: dict[int, Stream] = {stream.id: stream for stream in program.streams}
        self.lane_ids: dict[tuple[str, str], int] = {}
        self.ids: list[int] = []
        self.seconds: list[float] = []
        self.lanes: list[int] = []
        self.clocks: list[LinkClock | None] = []
        self.shared: set[int] = set()
        self.stream_of: list[int] = []
        self.nbytes: list[int] = []
        self.reads: list[Sequence[int]] = []
        self.writer: dict[int, int] = {}
        self.receive_of: dict[int, int] = {}
        self.feeds: list[int] = []
        self.deliver = -1
        self.missing: list[int] = []
        self.readers: list[list[int]] = []

    def add_device(self, part: DeviceProgram) -> None:
        """Number the steps of one device."""
        device, route, durations = part.device, self.route, self.durations
        for step in part.steps:
            if isinstance(step, Compute):
                if step.when and not is_active(step.when, route):
                    continue
                for buffer in step.writes:
                    self.writer[buffer] = len(self.ids)
                reads = _buffers_of(step.reads)
                self._add(step.id, (device, ">compute"), durations.compute_s[step.id], reads)
            elif isinstance(step, Send):
                if not step.when or is_active(step.when, route):
                    self._add_send(step, device)
            elif isinstance(step, Receive):
                if step.when and not is_active(step.when, route):
                    continue
                self.writer[step.write] = self.receive_of[step.stream] = len(self.ids)
                seconds = durations.receive_s.get(step.id, 0.0)
                self._add(step.id, (device, ">receive"), seconds, ())
            elif isinstance(step, Feed):
                self.feeds.append(len(self.ids))
                self.writer[step.write] = len(self.ids)
                self._add(step.id, (device, ">feed"), 0.0, ())
            elif isinstance(step, Deliver):
                self.deliver = len(self.ids)
                reads = _buffers_of(step.reads)
                self._add(step.id, (device, ">deliver"), durations.deliver_s, reads)

    def _add(self, step: int, lane: tuple[str, str], seconds: float, reads: Sequence[int]) -> None:
        self.ids.append(step)
        self.lanes.append(self.lane_ids.setdefault(lane, len(self.lane_ids)))
        self.seconds.append(seconds)
        self.reads.append(reads)
        self.clocks.append(None)
        self.stream_of.append(-1)
        self.nbytes.append(0)

    def _add_send(self, step: Send, device: str) -> None:
        stream = self.streams[step.stream]
        seconds = self.durations.encode_s.get(step.id, 0.0)
        self._add(step.id, (device, stream.target), seconds, (step.read,))
        self.clocks[-1] = self.links.between(device, stream.target)
        self.stream_of[-1] = stream.id
        self.nbytes[-1] = stream.wire_bytes
        if self.links.is_shared(device, stream.target):
            self.shared.add(len(self.ids) - 1)

    def connect(self) -> None:
        """Find the readers of each step; buffers that the route does not fill have none."""
        readers: list[list[int]] = [[] for _ in self.ids]
        writer = self.writer
        for index, reads in enumerate(self.reads):
            missing = 0
            for buffer in reads:
                source = writer.get(buffer)
                if source is not None:
                    readers[source].append(index)
                    missing += 1
            self.missing.append(missing)
        self.readers = readers


def _buffers_of(reads: tuple[Input, ...]) -> Sequence[int]:
    if len(reads) == 1:
        return reads[0].buffers
    return tuple({buffer: None for read in reads for buffer in read.buffers})


def _run(tables: _Tables, fed_s: float) -> float:
    """Return when the ``Deliver`` step is done."""
    missing, readers, lanes, seconds = tables.missing, tables.readers, tables.lanes, tables.seconds
    ids, clocks, shared = tables.ids, tables.clocks, tables.shared
    queues: list[list[int]] = [[] for _ in tables.lane_ids]
    running = [False] * len(queues)
    woken: list[int] = []
    # Entries sort like those of the full simulation: seconds, kind, id; then the step's index.
    heap: list[tuple[float, int, int, int]] = [(fed_s, FED, 0, -1)]
    while heap:
        now_s, kind, _, done = heappop(heap)
        if kind == ENCODED:
            _transmit(tables, heap, done, now_s)
            continue
        if kind == FINISHED:
            if done == tables.deliver:
                return now_s
            woken.append(lanes[done])
            running[lanes[done]] = False
        if kind == ARRIVED:
            ready = [done]
        else:
            ready = []
            for source in tables.feeds if kind == FED else (done,):
                for index in readers[source]:
                    missing[index] -= 1
                    if not missing[index]:
                        ready.append(index)
        for index in ready:
            heappush(queues[lanes[index]], index)
            woken.append(lanes[index])
        for lane in woken:
            if running[lane] or not queues[lane]:
                continue
            index = heappop(queues[lane])
            running[lane] = True
            end_s = now_s + seconds[index]
            if clocks[index] is None:
                heappush(heap, (end_s, FINISHED, ids[index], index))
            elif index in shared:
                heappush(heap, (end_s, ENCODED, ids[index], index))
            else:
                _transmit(tables, heap, index, end_s)
        woken.clear()
    raise RunError("The program never delivers: some step waits for what no step makes.")


def _transmit(
    tables: _Tables, heap: list[tuple[float, int, int, int]], index: int, now_s: float
) -> None:
    clock = tables.clocks[index]
    if clock is None:
        return
    _, end_s, arrive_s = clock.reserve(now_s, tables.nbytes[index])
    stream = tables.stream_of[index]
    heappush(heap, (end_s, FINISHED, tables.ids[index], index))
    heappush(heap, (arrive_s, ARRIVED, stream, tables.receive_of[stream]))
