"""A device's program as lists by index, so that the state machine never searches.

Steps and buffers are numbered by their place in the program; ids occur only at the edges.
"""

from __future__ import annotations

from collections.abc import Iterable

from partita.execution.events import Route
from partita.program import (
    Compute,
    Deliver,
    DeviceProgram,
    Feed,
    Load,
    Receive,
    Send,
    Step,
    Stream,
    buffers_read,
    buffers_written,
    is_active,
)

COMPUTE_LANE, RECEIVE_LANE, DELIVER_LANE, FIRST_SEND_LANE = 0, 1, 2, 3
NO_LANE = -1
#: Tables of a device that are kept, one for each way through the stages that it takes part in.
_MOST_TABLES = 1024


class StepTable:
    """The part of a device's program that is the same for all requests.

    Args:
        streams: At least the streams that begin or end on the device.
    """

    def __init__(self, program: DeviceProgram, streams: Iterable[Stream]) -> None:
        self.device = program.device
        self.steps = program.steps
        self.buffers = program.buffers
        self.streams = {stream.id: stream for stream in streams}
        self.index_of = {step.id: index for index, step in enumerate(self.steps)}
        place = {buffer.id: index for index, buffer in enumerate(self.buffers)}
        self.reads = [tuple(place[b] for b in buffers_read(step)) for step in self.steps]
        self.writes = [tuple(place[b] for b in buffers_written(step)) for step in self.steps]
        self.writer_of = {b: i for i, writes in enumerate(self.writes) for b in writes}
        self.receive_of: dict[int, int] = {}
        self.send_of: dict[int, int] = {}
        #: Per step, the stream that it needs a credit of; per buffer, the stream to give one back.
        self.send_stream: list[int | None] = [None] * len(self.steps)
        self.credit_back: list[int | None] = [None] * len(self.buffers)
        self.feeds = [i for i, step in enumerate(self.steps) if isinstance(step, Feed)]
        self.loads = [step for step in self.steps if isinstance(step, Load)]
        self.targets: list[str] = []
        self.lanes = [self._lane_of(step) for step in self.steps]
        self.fragment_of = [s.fragment if isinstance(s, Compute) else None for s in self.steps]
        for index, step in enumerate(self.steps):
            if isinstance(step, Send):
                self.send_of[step.stream] = index
                if self.streams[step.stream].credit:
                    self.send_stream[index] = step.stream
            elif isinstance(step, Receive):
                self.receive_of[step.stream] = index
                if self.streams[step.stream].credit:
                    self.credit_back[place[step.write]] = step.stream
        groups = (group for step in self.steps for group, _ in getattr(step, "when", ()))
        self._groups = sorted(set(groups))
        self._routes: dict[Route, RouteTable] = {}

    def _lane_of(self, step: Step) -> int:
        if isinstance(step, Send):
            target = self.streams[step.stream].target
            if target not in self.targets:
                self.targets.append(target)
            return FIRST_SEND_LANE + self.targets.index(target)
        lanes = {Compute: COMPUTE_LANE, Receive: RECEIVE_LANE, Deliver: DELIVER_LANE}
        return lanes.get(type(step), NO_LANE)

    @property
    def lane_names(self) -> tuple[str, ...]:
        """The lanes by their numbers, loaders not counted, as :class:`Span` names them."""
        return ("compute", "receive", "deliver", *(f"send:{target}" for target in self.targets))

    def label_of(self, index: int) -> str:
        """A step's name for people."""
        step = self.steps[index]
        if isinstance(step, Compute):
            return step.label
        if isinstance(step, Send | Receive):
            stream = self.streams[step.stream]
            way = f"to {stream.target}" if isinstance(step, Send) else f"from {stream.source}"
            return f"{type(step).__name__.lower()} {stream.tensor} {way}"
        return type(step).__name__.lower()

    def for_route(self, route: Route) -> RouteTable:
        """The table of the requests that take ``route``.

        Raises:
            ValueError: The route has fewer choices than the steps ask for.
        """
        if self._groups and self._groups[-1] >= len(route):
            raise ValueError(
                f"route {route} on {self.device!r} has {len(route)} choices, steps ask for more"
            )
        own = tuple(route[group] for group in self._groups)
        table = self._routes.get(own)
        if table is None:
            if len(self._routes) >= _MOST_TABLES:
                self._routes.clear()
            table = self._routes[own] = RouteTable(self, route)
        return table


class RouteTable:
    """Which steps and buffers take part in the requests of one route.

    Attributes:
        active: Per step, whether it takes part.
        reads: Per step, the buffers that the route fills.
        readers: Per buffer, the steps that take part and read it.
        missing: Per step, how many buffers it waits for.
        uses: Per buffer, how many steps still have to read it.
        at_once: Steps that wait for no buffer.
        count: Steps to be done per request.
    """

    def __init__(self, table: StepTable, route: Route) -> None:
        self.active = [is_active(getattr(step, "when", ()), route) for step in table.steps]
        filled = [False] * len(table.buffers)
        for index, writes in enumerate(table.writes):
            for buffer in writes:
                filled[buffer] = self.active[index]
        self.reads = [
            tuple(b for b in reads if filled[b]) if self.active[index] else ()
            for index, reads in enumerate(table.reads)
        ]
        readers: list[list[int]] = [[] for _ in table.buffers]
        for index, reads in enumerate(self.reads):
            for buffer in reads:
                readers[buffer].append(index)
        self.readers = [tuple(steps) for steps in readers]
        self.missing = [len(reads) for reads in self.reads]
        self.uses = [len(steps) for steps in readers]
        works = [i for i, s in enumerate(table.steps) if self.active[i] and not isinstance(s, Load)]
        self.count = len(works)
        self.at_once = [
            i for i in works if not self.reads[i] and isinstance(table.steps[i], Compute | Deliver)
        ]
