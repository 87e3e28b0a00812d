"""The latency of a single request, fast: planners ask for it thousands of times.

The same events in the same order as :func:`~partita.simulation.simulate.simulate` with one request,
without what one request cannot show: credits, turns, memory and spans. An :class:`EventGraph` is
built from a program here, and from the tasks of a draft by the planners.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from partita.errors import RunError
from partita.execution import Admission, Durations, LinkClock, LinkClocks
from partita.program import (
    Compute,
    Deliver,
    DeviceProgram,
    Feed,
    Program,
    Receive,
    Send,
    Stream,
    buffers_read,
    is_active,
)
from partita.simulation.order import ARRIVED, ENCODED, FED, FINISHED


class Message(NamedTuple):
    """What a sending step puts on a link.

    Attributes:
        wire_bytes: On the link.
        is_shared: Whether the link takes turns with others on a medium.
        receiver: The step that receives it.
        key: Decides between messages that arrive at the same time; the smallest is first.
    """

    clock: LinkClock
    wire_bytes: int
    is_shared: bool
    receiver: int
    key: int


class EventGraph:
    """The steps that one request takes, numbered; of those that wait for a lane the first goes.

    Attributes:
        lanes: Per step, the number of the lane that it occupies.
        seconds: Per step, how long; of a sending step until its message is on the link.
        keys: Per step; decides between steps that end at the same time, the smallest is first.
        messages: Per step; None where it sends nothing.
        missing: Per step, how many pieces it waits for.
        readers: Per step, the steps that wait for it, once per piece.
        feeds: Steps that make the inputs.
        last: The step that ends the request.
    """

    def __init__(self) -> None:
        self._lane_numbers: dict[Hashable, int] = {}
        self.lanes: list[int] = []
        self.seconds: list[float] = []
        self.keys: list[int] = []
        self.messages: list[Message | None] = []
        self.missing: list[int] = []
        self.readers: list[list[int]] = []
        self.feeds: list[int] = []
        self.last = -1

    def add(self, lane: Hashable, seconds: float, key: int, waits: Iterable[int] = ()) -> int:
        """Add a step that waits for others, and return its number."""
        number = len(self.lanes)
        self.lanes.append(self._lane_numbers.setdefault(lane, len(self._lane_numbers)))
        self.seconds.append(seconds)
        self.keys.append(key)
        self.messages.append(None)
        self.missing.append(0)
        self.readers.append([])
        for step in waits:
            self.wait(number, step)
        return number

    def wait(self, step: int, source: int) -> None:
        """Let a step wait for what another makes."""
        self.readers[source].append(step)
        self.missing[step] += 1

    def run(self, fed_s: float) -> float:
        """When the last step is done, in seconds; the graph is used up.

        Args:
            fed_s: When the inputs are there.

        Raises:
            RunError: It never is.
        """
        missing, readers, lanes, seconds = self.missing, self.readers, self.lanes, self.seconds
        keys, messages = self.keys, self.messages
        queues: list[list[int]] = [[] for _ in self._lane_numbers]
        running = [False] * len(queues)
        # Entries sort like those of the full simulation: seconds, kind, key; then the step.
        heap: list[tuple[float, int, int, int]] = [(fed_s, FED, 0, -1)]
        while heap:
            now_s, kind, _, done = heappop(heap)
            if kind == ENCODED:
                self._transmit(heap, done, now_s)
                continue
            woken, ready = [], [done] if kind == ARRIVED else []
            if kind == FINISHED:
                if done == self.last:
                    return now_s
                woken.append(lanes[done])
                running[lanes[done]] = False
            if kind != ARRIVED:
                for source in self.feeds if kind == FED else (done,):
                    for step in readers[source]:
                        missing[step] -= 1
                        if not missing[step]:
                            ready.append(step)
            for step in ready:
                heappush(queues[lanes[step]], step)
                woken.append(lanes[step])
            for lane in woken:
                if running[lane] or not queues[lane]:
                    continue
                step = heappop(queues[lane])
                running[lane] = True
                end_s = now_s + seconds[step]
                message = messages[step]
                if message is None:
                    heappush(heap, (end_s, FINISHED, keys[step], step))
                elif message.is_shared:
                    heappush(heap, (end_s, ENCODED, keys[step], step))
                else:
                    self._transmit(heap, step, end_s)
        raise RunError("The program never delivers: some step waits for what no step makes.")

    def _transmit(self, heap: list[tuple[float, int, int, int]], step: int, now_s: float) -> None:
        message = self.messages[step]
        if message is not None:
            _, end_s, arrive_s = message.clock.reserve(now_s, message.wire_bytes)
            heappush(heap, (end_s, FINISHED, self.keys[step], step))
            heappush(heap, (arrive_s, ARRIVED, message.key, message.receiver))


def latency_s(program: Program, durations: Durations) -> float:
    """The seconds from the first request's admission to its answer.

    Equal to the latency that :func:`~partita.simulation.simulate.simulate` gives for one request.

    Raises:
        KeyError: ``durations`` lacks a ``Compute`` step.
        PlanError: The program sends over a link that ``durations`` lacks.
        RunError: The program never delivers.
    """
    return program_graph(program, durations).run(durations.admit_s + durations.feed_s)


def program_graph(program: Program, durations: Durations) -> EventGraph:
    """The steps that the first request takes through a program, in program order.

    Raises:
        KeyError: ``durations`` lacks a ``Compute`` step.
        PlanError: The program sends over a link that ``durations`` lacks.
    """
    builder = _ProgramSteps(program, durations)
    for part in program.devices:
        builder.add_device(part)
    return builder.connect()


class _ProgramSteps:
    """Builds the graph of a program.

    Attributes:
        reads: Per step, the buffers that it reads.
        writer: Per buffer, the step that fills it.
    """

    def __init__(self, program: Program, durations: Durations) -> None:
        self.graph = EventGraph()
        self.durations = durations
        self.links = LinkClocks(durations.links)
        _, self.route = Admission(program.routes, 1, program.shares).admit()
        self.streams: dict[int, Stream] = {stream.id: stream for stream in program.streams}
        self.reads: list[Sequence[int]] = []
        self.writer: dict[int, int] = {}
        self.sender: dict[int, int] = {}
        self.receiver: dict[int, int] = {}

    def add_device(self, part: DeviceProgram) -> None:
        """Number the steps of one device."""
        device, durations = part.device, self.durations
        for step in part.steps:
            if isinstance(step, Compute | Send | Receive) and (
                step.when and not is_active(step.when, self.route)
            ):
                continue
            if isinstance(step, Compute):
                seconds = durations.compute_s[step.id]
                number = self._add(step.id, (device, ">compute"), seconds, buffers_read(step))
                self.writer |= dict.fromkeys(step.writes, number)
            elif isinstance(step, Send):
                lane = (device, self.streams[step.stream].target)
                seconds = durations.encode_s.get(step.id, 0.0)
                self.sender[step.stream] = self._add(step.id, lane, seconds, buffers_read(step))
            elif isinstance(step, Receive):
                seconds = durations.receive_s.get(step.id, 0.0)
                number = self._add(step.id, (device, ">receive"), seconds)
                self.writer[step.write] = self.receiver[step.stream] = number
            elif isinstance(step, Feed):
                self.writer[step.write] = self._add(step.id, (device, ">feed"), 0.0)
                self.graph.feeds.append(self.writer[step.write])
            elif isinstance(step, Deliver):
                lane = (device, ">deliver")
                self.graph.last = self._add(step.id, lane, durations.deliver_s, buffers_read(step))

    def _add(
        self, step: int, lane: tuple[str, str], seconds: float, reads: Sequence[int] = ()
    ) -> int:
        self.reads.append(reads)
        return self.graph.add(lane, seconds, step)

    def connect(self) -> EventGraph:
        """The graph with readers and messages; nobody waits for what no step fills."""
        for number, reads in enumerate(self.reads):
            for buffer in reads:
                source = self.writer.get(buffer)
                if source is not None:
                    self.graph.wait(number, source)
        for stream_id, sender in self.sender.items():
            stream = self.streams[stream_id]
            ends = (stream.source, stream.target)
            self.graph.messages[sender] = Message(
                self.links.between(*ends),
                stream.wire_bytes,
                self.links.is_shared(*ends),
                self.receiver[stream_id],
                stream_id,
            )
        return self.graph
