"""A program run on a virtual clock: the real state machines, with predicted durations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from partita.errors import RunError
from partita.execution import (
    Action,
    Admission,
    Arrived,
    Credited,
    Delivered,
    Durations,
    Event,
    Fed,
    Finished,
    Free,
    GiveCredit,
    LinkClocks,
    Loaded,
    QueueUse,
    Report,
    ReportBuilder,
    Route,
    Start,
    StartLoad,
    weight_bytes,
)
from partita.program import Program
from partita.simulation.device import SimulatedDevice
from partita.simulation.order import ARRIVED, CAME, CREDITED, ENCODED, FED, FINISHED

#: When (seconds), kind, id, request; then a counter that never lets the rest be compared; place of
#: the device, and what its machine hears.
_Entry = tuple[float, int, int, int, int, int, Event | None]
_Heard = Event | None


def simulate(
    program: Program,
    durations: Durations,
    *,
    requests: int = 1,
    in_flight: int | None = None,
    planner: str = "",
    seed: int = 0,
    keep_spans: bool = True,
    arrivals: Sequence[float] | None = None,
    cold: bool = False,
    loaders: int = 1,
) -> Report:
    """What running ``program`` would give if every step took its predicted time.

    Args:
        requests: How many inputs to feed; at least 1.
        in_flight: Most requests at the same time; None for the program's own limit, 1 to feed the
            next input after the last output.
        planner: Name for the report.
        seed: Seed for the report.
        keep_spans: Whether the report lists what each lane did when.
        arrivals: Seconds at which each input comes, not decreasing; the wait for admission then
            counts as latency. None when all are there at the start; latency counts from admission.
        cold: Whether loading begins at time 0, together with the first input; else it is done then.
        loaders: Fragments that a device loads at the same time, none slower for it.

    Raises:
        PlanError: The program sends over a link that ``durations`` lacks.
        RunError: The program cannot finish; names a device, step and request that wait.
        ValueError: There are no requests, or not one arrival for each.
    """
    if requests < 1 or (arrivals is not None and len(arrivals) != requests):
        given = "" if arrivals is None else f" and {len(arrivals)} arrivals"
        raise ValueError(f"{requests} requests{given}; at least 1 is needed, with one arrival each")
    builder = ReportBuilder(program, planner=planner, seed=seed, keep_spans=keep_spans)
    run = Run(program, durations, in_flight or program.in_flight, builder, loaders=loaders)
    run.load_all(cold=cold)
    run.feed_all(requests, arrivals)
    latencies_s, makespan_s = run.finish()
    peaks = run.peak_buffer_bytes()
    memory = {name: weight_bytes(program, name) + peak for name, peak in peaks.items()}
    return builder.build(latencies_s, makespan_s, memory, run.queues())


class Run:
    """The virtual clock, its devices, and the leader.

    Attributes:
        answered_s: When each answer came, in the order of the answers.
    """

    def __init__(
        self,
        program: Program,
        durations: Durations,
        in_flight: int,
        builder: ReportBuilder,
        *,
        loaders: int = 1,
    ) -> None:
        self._durations = durations
        self._record = builder.record
        self._clocks = LinkClocks(durations.links)
        self._streams = {stream.id: stream for stream in program.streams}
        self._devices = [
            SimulatedDevice(part, program, durations, in_flight, loaders=loaders)
            for part in program.devices
        ]
        self._place = {device.name: place for place, device in enumerate(self._devices)}
        self._requester = self._place[program.requester]
        self._admission = Admission(
            program.routes, program.in_flight, program.shares, limit=in_flight
        )
        self._heap: list[_Entry] = []
        self._pushed = 0
        self._began_s: dict[tuple[int, int], float] = {}
        self._routes: dict[int, Route] = {}
        self._to_come = 0
        self._leader_free_s = 0.0
        self._arrivals: Sequence[float] | None = None
        self._admitted_s: list[float] = []
        self._latency_s: dict[int, float] = {}
        self.answered_s: list[float] = []
        self._makespan_s = 0.0

    def _push(self, time_s: float, key: tuple[int, int, int], place: int, event: _Heard) -> None:
        self._pushed += 1
        heappush(self._heap, (time_s, *key, self._pushed, place, event))

    def load_all(self, *, cold: bool) -> None:
        """Start loading at time 0, or have it done by then."""
        for place, device in enumerate(self._devices):
            actions = device.machine.begin()
            if cold:
                self._act(place, actions, 0.0)
            while actions and not cold:
                loads = [action for action in actions if isinstance(action, StartLoad)]
                actions = [m for load in loads for m in device.machine.handle(Loaded(load.step))]

    def feed_all(self, requests: int, arrivals: Sequence[float] | None) -> None:
        """Let the inputs come: all at time 0, or each at its own."""
        self._arrivals = arrivals
        if arrivals is None:
            self._to_come = requests
            self._admit(0.0)
            return
        for request, time_s in enumerate(arrivals):
            self._push(time_s, (CAME, request, request), 0, None)

    def finish(self) -> tuple[list[float], float]:
        """Run until nothing happens any more; return latencies and makespan in seconds."""
        self.run_until(None)
        self._check_all_done()
        return [self._latency_s[request] for request in sorted(self._latency_s)], self._makespan_s

    def run_until(self, answers: int | None) -> None:
        """Run until so many answers are there, or nothing happens any more."""
        heap = self._heap
        while heap and (answers is None or len(self.answered_s) < answers):
            now_s, kind, ident, request, _, place, event = heappop(heap)
            if event is not None:
                device = self._devices[place]
                if kind == ARRIVED:
                    device.hold(device.bytes_of_stream[ident])
                elif kind == FED:
                    device.hold(device.feed_bytes)
                self._act(place, device.machine.handle(event), now_s)
            elif kind == ENCODED:
                self._transmit(place, ident, request, now_s)
            else:
                self._to_come += 1
                self._admit(now_s)

    def peak_buffer_bytes(self) -> dict[str, int]:
        """The most bytes of pieces that each device held at one time."""
        return {device.name: device.peak_bytes for device in self._devices}

    def queues(self) -> Iterator[QueueUse]:
        """What steps found before them, per lane that had any."""
        for device in self._devices:
            for lane, found in device.machine.queues.items():
                if any(found):
                    yield QueueUse(device.name, lane, found)

    def _admit(self, now_s: float) -> None:
        while self._to_come and self._admission.has_room:
            self._to_come -= 1
            request, route = self._admission.admit()
            self._routes[request] = route
            start_s = max(now_s, self._leader_free_s)
            fed_s = start_s + (self._durations.admit_s + self._durations.feed_s)
            self._leader_free_s = fed_s
            self._admitted_s.append(start_s)
            event = Fed(request, route)
            self._push(fed_s, (FED, request, request), self._requester, event)

    def _act(self, place: int, actions: list[Action], now_s: float) -> None:
        device = self._devices[place]
        for action in actions:
            if isinstance(action, Start):
                self._start(place, action.step, action.request, now_s)
            elif isinstance(action, Free):
                device.drop(action.buffer)
            elif isinstance(action, GiveCredit):
                self._give_credit(action.stream, now_s)
            elif isinstance(action, StartLoad):
                self._load(place, action.step, now_s)
            elif isinstance(action, Delivered):
                self._note_answer(action.request, now_s)

    def _start(self, place: int, step: int, request: int, now_s: float) -> None:
        device = self._devices[place]
        end_s = now_s + device.seconds_of[step]
        stream = device.stream_sent.get(step)
        if stream is None:
            device.hold(device.bytes_of_compute.get(step, 0))
            self._record(step, request, now_s, end_s)
            event = Finished(step, request)
            self._push(end_s, (FINISHED, step, request), place, event)
            return
        self._began_s[step, request] = now_s
        if self._clocks.is_shared(stream.source, stream.target):
            # The turn on a medium goes to who is ready first, which only the heap knows.
            self._push(end_s, (ENCODED, step, request), place, None)
        else:
            self._transmit(place, step, request, end_s)

    def _transmit(self, place: int, step: int, request: int, now_s: float) -> None:
        stream = self._devices[place].stream_sent[step]
        clock = self._clocks.between(stream.source, stream.target)
        transfer = clock.reserve(now_s, stream.wire_bytes)
        self._record(step, request, self._began_s.pop((step, request)), transfer.end_s)
        finished = Finished(step, request)
        self._push(transfer.end_s, (FINISHED, step, request), place, finished)
        arrived = Arrived(stream.id, request, self._routes[request])
        target = self._place[stream.target]
        self._push(transfer.arrive_s, (ARRIVED, stream.id, request), target, arrived)

    def _give_credit(self, stream_id: int, now_s: float) -> None:
        stream = self._streams[stream_id]
        links = self._durations.links
        back = links.get((stream.target, stream.source)) or links[stream.source, stream.target]
        event = Credited(stream_id)
        source = self._place[stream.source]
        self._push(now_s + back.latency_s, (CREDITED, stream_id, 0), source, event)

    def _load(self, place: int, step: int, now_s: float) -> None:
        end_s = now_s + self._devices[place].seconds_of[step]
        self._record(step, -1, now_s, end_s)
        self._push(end_s, (FINISHED, step, -1), place, Loaded(step))

    def _note_answer(self, request: int, now_s: float) -> None:
        began_s = self._arrivals[request] if self._arrivals else self._admitted_s[request]
        self._latency_s[request] = now_s - began_s
        self.answered_s.append(now_s)
        self._makespan_s = max(self._makespan_s, now_s - self._admitted_s[0])
        self._admission.finish(request)
        self._admit(now_s)

    def _check_all_done(self) -> None:
        for device in self._devices:
            for wait in device.machine.state():
                raise RunError(
                    f"Request {wait.request} cannot finish on device {device.name!r}: step "
                    f"{wait.step} ({wait.label}) {wait.reason}, and nothing more will happen. "
                    "Check the program.",
                    device=device.name,
                    step=wait.label,
                    request=wait.request,
                )
