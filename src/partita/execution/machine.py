"""One device's execution as a pure function of what it hears: events in, actions out.

The simulation and the worker drive the same machine; it has no clock and does no input or output.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import islice

from partita.execution.events import (
    Action,
    Arrived,
    Credited,
    Delivered,
    Event,
    Fed,
    Finished,
    Free,
    GiveCredit,
    Loaded,
    Route,
    Start,
    StartLoad,
)
from partita.execution.histograms import DEPTHS, depth_place
from partita.execution.request import DONE, QUEUED, RUNNING, WAITING, OpenRequest, Wait, list_waits
from partita.execution.tables import DELIVER_LANE, StepTable
from partita.program import DeviceProgram, Load, Stream

_IDLE = -1
#: Finished requests of a routed program that are remembered, to recognise a late duplicate: many
#: times the 1000 that may be in flight.
_REMEMBERED = 4096


class Machine:
    """The lanes of one device: compute, receive, deliver, one send per target, and loaders.

    An idle lane takes the oldest request's ready step, then program order. Requests are numbered
    from 0 without gaps; every step serves them in that order, unless the program has replicas (the
    requests carry a route). A ``Send`` waits for a credit of its own stream only, and never holds
    up other streams meanwhile; streams of credit 0 need none.

    Args:
        streams: The program's streams; at least those that begin or end on the device.
        in_flight: Most requests fed and not yet delivered.
        loaders: How many ``Load`` steps may run at the same time.
    """

    def __init__(
        self,
        program: DeviceProgram,
        streams: Iterable[Stream],
        in_flight: int,
        *,
        loaders: int = 1,
    ) -> None:
        table = self._table = StepTable(program, streams)
        self._in_flight = in_flight
        count = self._count = len(table.steps)
        self._requests: dict[int, OpenRequest] = {}
        self._past_below = 0
        self._past: dict[int, None] = {}
        self._undelivered = 0
        lanes = len(table.lane_names)
        self._queues: list[list[int]] = [[] for _ in range(lanes)]
        self._depths = [[0] * DEPTHS for _ in range(lanes)]
        self._ready = [0] * lanes
        self._running = [_IDLE] * lanes
        self._woken: list[int] = []
        self._turn = [0] * count
        self._early: list[set[int]] = [set() for _ in range(count)]
        self._credit = {stream.id: stream.credit for stream in table.streams.values()}
        self._no_credit: dict[int, list[int]] = {stream: [] for stream in self._credit}
        self._unread = dict.fromkeys(table.receive_of, 0)
        #: Per fragment that is not loaded yet, the ready steps that wait for it.
        self._unloaded: dict[int, list[int]] = {load.fragment: [] for load in table.loads}
        self._loads = list(reversed(table.loads))
        self._loading: dict[int, Load] = {}
        self._loaders = loaders

    @property
    def is_loaded(self) -> bool:
        """Whether every fragment is ready."""
        return not self._unloaded

    @property
    def open_requests(self) -> tuple[int, ...]:
        """Requests that the device knows of and has not finished, in order."""
        return tuple(sorted(self._requests))

    @property
    def queues(self) -> dict[str, tuple[int, ...]]:
        """Per lane, how many steps found 0, 1, 2-3, 4-7... others there when they became ready.

        Others are at work, or wait for the lane, a credit, their turn or their fragment.
        """
        return dict(zip(self._table.lane_names, map(tuple, self._depths), strict=True))

    def route_of(self, request: int) -> Route:
        """The route of a request under way.

        Raises:
            KeyError: The device does not know the request, or has finished it.
        """
        return self._requests[request].route

    def begin(self) -> list[Action]:
        """The first ``Load`` steps to start; call it once, before any event."""
        actions: list[Action] = []
        self._start_loads(actions)
        return actions

    def handle(self, event: Event) -> list[Action]:
        """Take one event and return what to do now, in order.

        Raises:
            ValueError: The event cannot be: an id that the program lacks, a step that was not
                started, a piece that came before, more pieces or credits than the stream has.
        """
        actions: list[Action] = []
        if isinstance(event, Finished):
            self._on_finished(event.step, event.request, actions)
        elif isinstance(event, Arrived):
            self._on_arrived(event, actions)
        elif isinstance(event, Credited):
            self._on_credited(event.stream)
        elif isinstance(event, Fed):
            self._on_fed(event, actions)
        elif isinstance(event, Loaded):
            self._on_loaded(event.step, actions)
        else:
            raise ValueError(f"{event!r} is not an event")
        if self._woken:
            self._start_steps(actions)
        return actions

    def state(self, most: int | None = None) -> tuple[Wait, ...]:
        """The unfinished steps of open requests with their reasons, oldest request first.

        Args:
            most: How many of them; all when None.
        """
        waits = (
            wait
            for number in sorted(self._requests)
            for wait in list_waits(self._table, number, self._requests[number])
        )
        return tuple(islice(waits, most))

    def _on_fed(self, event: Fed, actions: list[Action]) -> None:
        number, route = event.request, event.route
        table = self._table
        if not table.feeds:
            raise ValueError(f"{event} on {table.device!r}, which feeds no inputs")
        if self._undelivered >= self._in_flight:
            raise ValueError(f"{event} exceeds the {self._in_flight} requests allowed in flight")
        request = self._requests.get(number)
        if self._is_past(number) or (request and request.status[table.feeds[0]] == DONE):
            raise ValueError(f"{event} came before")
        request = self._open(number, route)
        self._undelivered += 1
        for index in table.feeds:
            request.status[index] = DONE
            request.left -= 1
            self._fill(number, request, index, actions)
        self._close_if_done(number, request)

    def _on_arrived(self, event: Arrived, actions: list[Action]) -> None:
        stream, number, route = event.stream, event.request, event.route
        table = self._table
        index = table.receive_of.get(stream)
        if index is None:
            raise ValueError(f"{event} on {table.device!r}, which does not receive that stream")
        if self._is_past(number):
            raise ValueError(f"{event} came before: the request is finished here")
        known = self._requests.get(number)
        if known is not None and known.status[index] != WAITING:
            raise ValueError(f"{event} came before")
        if not table.for_route(route).active[index]:
            raise ValueError(f"{event} is not on its request's route")
        credit = table.streams[stream].credit
        if credit:
            if self._unread[stream] >= credit:
                raise ValueError(f"{event} exceeds the stream's {credit} credits")
            self._unread[stream] += 1
        request = self._open(number, route)
        self._make_ready(number, request, index)

    def _on_credited(self, stream: int) -> None:
        table = self._table
        if stream not in table.send_of:
            raise ValueError(f"credit for stream {stream}, which {table.device!r} does not send")
        if self._credit[stream] >= table.streams[stream].credit:
            raise ValueError(f"credit for stream {stream}, which has all its credits")
        self._credit[stream] += 1
        waiting = self._no_credit[stream]
        if waiting:
            self._enqueue(heappop(waiting), table.lanes[table.send_of[stream]])

    def _on_loaded(self, step: int, actions: list[Action]) -> None:
        load = self._loading.pop(step, None)
        if load is None:
            raise ValueError(f"load step {step} on {self._table.device!r} was not started")
        for key in self._unloaded.pop(load.fragment, ()):
            self._enqueue(key, self._table.lanes[key % self._count])
        self._start_loads(actions)

    def _on_finished(self, step: int, number: int, actions: list[Action]) -> None:
        table = self._table
        index = table.index_of.get(step)
        request = self._requests.get(number)
        if index is None or request is None or request.status[index] != RUNNING:
            raise ValueError(f"step {step} of request {number} was not started on {table.device!r}")
        lane = table.lanes[index]
        self._running[lane] = _IDLE
        self._woken.append(lane)
        request.status[index] = DONE
        request.left -= 1
        uses = request.uses
        for buffer in request.table.reads[index]:
            uses[buffer] -= 1
            if not uses[buffer]:
                self._release(buffer, number, actions)
        self._fill(number, request, index, actions)
        if lane == DELIVER_LANE:
            self._undelivered -= 1
            actions.append(Delivered(number))
        self._close_if_done(number, request)

    def _open(self, number: int, route: Route) -> OpenRequest:
        """A request's state; make it when the device hears of the request first."""
        request = self._requests.get(number)
        if request is None:
            request = OpenRequest(route, self._table.for_route(route))
            self._requests[number] = request
            for index in request.table.at_once:
                self._make_ready(number, request, index)
        elif request.route != route:
            raise ValueError(f"request {number} has route {request.route}, not {route}")
        return request

    def _close_if_done(self, number: int, request: OpenRequest) -> None:
        if request.left:
            return
        del self._requests[number]
        past = self._past
        past[number] = None
        while self._past_below in past:
            del past[self._past_below]
            self._past_below += 1
        if len(past) > _REMEMBERED:
            del past[next(iter(past))]

    def _is_past(self, number: int) -> bool:
        return number < self._past_below or number in self._past

    def _fill(self, number: int, request: OpenRequest, index: int, actions: list[Action]) -> None:
        """Let the readers know that a step has written its buffers."""
        missing = request.missing
        for buffer in self._table.writes[index]:
            readers = request.table.readers[buffer]
            if not readers:
                self._release(buffer, number, actions)
            for reader in readers:
                missing[reader] -= 1
                if not missing[reader]:
                    self._make_ready(number, request, reader)

    def _release(self, buffer: int, number: int, actions: list[Action]) -> None:
        actions.append(Free(self._table.buffers[buffer].id, number))
        stream = self._table.credit_back[buffer]
        if stream is not None:
            self._unread[stream] -= 1
            actions.append(GiveCredit(stream))

    def _make_ready(self, number: int, request: OpenRequest, index: int) -> None:
        """Take note of a step that has its data, and queue it."""
        request.status[index] = QUEUED
        lane = self._table.lanes[index]
        depth = self._ready[lane] + (self._running[lane] != _IDLE)
        self._depths[lane][depth_place(depth)] += 1
        self._ready[lane] += 1
        self._queue(number, request, index)

    def _queue(self, number: int, request: OpenRequest, index: int) -> None:
        """Queue a step, unless an older request or its fragment comes first."""
        if not request.route and self._turn[index] != number:
            self._early[index].add(number)
            return
        key = number * self._count + index
        fragment = self._table.fragment_of[index]
        if fragment is not None and fragment in self._unloaded:
            self._unloaded[fragment].append(key)
        else:
            self._enqueue(key, self._table.lanes[index])

    def _enqueue(self, key: int, lane: int) -> None:
        heappush(self._queues[lane], key)
        if self._running[lane] == _IDLE:
            self._woken.append(lane)

    def _start_loads(self, actions: list[Action]) -> None:
        while self._loads and len(self._loading) < self._loaders:
            load = self._loads.pop()
            self._loading[load.id] = load
            actions.append(StartLoad(load.id))

    def _start_steps(self, actions: list[Action]) -> None:
        """Give every idle lane its next step."""
        for lane in self._woken:
            queue = self._queues[lane]
            while queue and self._running[lane] == _IDLE:
                number, index = divmod(heappop(queue), self._count)
                self._start(lane, number, index, actions)
        self._woken.clear()

    def _start(self, lane: int, number: int, index: int, actions: list[Action]) -> None:
        """Start a step, or set it aside when its stream has no credit."""
        stream = self._table.send_stream[index]
        if stream is not None:
            if not self._credit[stream]:
                heappush(self._no_credit[stream], number * self._count + index)
                return
            self._credit[stream] -= 1
        request = self._requests[number]
        request.status[index] = RUNNING
        self._running[lane] = index
        self._ready[lane] -= 1
        actions.append(Start(self._table.steps[index].id, number))
        if request.route:
            return
        self._turn[index] = number + 1
        early = self._early[index]
        if number + 1 in early:
            early.remove(number + 1)
            self._queue(number + 1, self._requests[number + 1], index)
