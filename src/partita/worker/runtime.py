"""One epoch of a program on one device: the state machine driven by real events.

There is no loop that everything queues for: whoever has an event (a lane that finished a step, the
fabric that has a frame) takes the lock, asks the machine, and puts what is to be started on the
lanes. That saves two changes of thread per step.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from partita.engine import Engine, Slowdown
from partita.errors import PartitaError, first_line
from partita.execution import (
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
    Machine,
    Start,
    StartLoad,
    weight_bytes,
)
from partita.execution.pieces import decode_feed, index_buffers
from partita.fabric import Credit, Endpoint, Failure, PieceGate, PieceHeader, encode_note
from partita.program import DeviceProgram, Feed, Load
from partita.worker.buffers import BufferTable, StepLog, Written
from partita.worker.lanes import Lanes
from partita.worker.messages import (
    FIRST_FEED,
    Prepare,
    Stats,
    Waiting,
    answer_streams,
    feed_streams,
)
from partita.worker.step_runners import DeliverWork, StepContext, StepPacing, StepRunner, make_work
from partita.worker.store import Store


@dataclass(frozen=True)
class WorkerResources:
    """What all epochs of one worker share.

    Attributes:
        loaders: How many fragments may load at the same time.
        slow_down: Emulated slowness, the same object as the engine's.
    """

    endpoint: Endpoint
    lanes: Lanes
    store: Store
    engine: Engine
    slow_down: Slowdown = field(default_factory=Slowdown)
    loaders: int = 1


class Runtime:
    """The device's part of one program under one epoch.

    Args:
        prepare: The program and who leads.
        host: What it runs on.
    """

    def __init__(self, prepare: Prepare, host: WorkerResources) -> None:
        self.epoch = prepare.epoch
        self.leader = prepare.leader
        self.program = prepare.program
        self.error = ""
        self.book = StepLog(prepare.trace)
        self.pieces = BufferTable()
        self.stretch = StepPacing(host.slow_down)
        self._host = host
        self._device: DeviceProgram = prepare.program.device(host.endpoint.name)
        self._lock = threading.Lock()
        self._machine = Machine(
            self._device,
            prepare.program.streams,
            prepare.program.in_flight,
            loaders=host.loaders,
        )
        self._site = self._make_site()
        self._works: dict[int, StepRunner] = {}
        for step in self._device.steps:
            work = make_work(step, self._site)
            if work is not None:
                self._works[step.id] = work
        self._puts = {n: host.lanes.lane(w.lane).put for n, w in self._works.items()}
        self._courier = host.lanes.lane("credits").put
        self._loads = {s.id: s.fragment for s in self._device.steps if isinstance(s, Load)}
        self._feeds = [s for s in self._device.steps if isinstance(s, Feed)]
        self._fed: dict[int, dict[str, memoryview]] = {}
        self._ready: deque[tuple[Fed, tuple[Written, ...]]] = deque()
        self._room = prepare.program.in_flight
        self._is_lane = False
        self._last: Callable[[], None] | None = None
        self._dropped = 0
        self._is_closed = False

    def _make_site(self) -> StepContext:
        program, host = self.program, self._host
        feeds = feed_streams(program, self.leader)
        answers = answer_streams(program, self.leader)
        is_requester = host.endpoint.name == program.requester
        streams = program.streams + (feeds if is_requester else ())
        self._gate = PieceGate(self.epoch, host.endpoint.name, streams)
        return StepContext(
            self.epoch,
            host.endpoint,
            self.pieces,
            self.book,
            self.stretch,
            index_buffers(self._device),
            {stream.id: stream for stream in streams},
            answers,
            {},
        )

    @property
    def is_loaded(self) -> bool:
        """Whether every fragment is ready."""
        return self._machine.is_loaded

    @property
    def members(self) -> frozenset[str]:
        """This device, those it exchanges pieces with, and the leader."""
        ends = {end for s in self.program.streams for end in (s.source, s.target)}
        return frozenset(ends | {self._device.device, self.leader})

    @property
    def works(self) -> tuple[StepRunner, ...]:
        """All steps but loads and feeds, in program order."""
        return tuple(self._works.values())

    @property
    def site(self) -> StepContext:
        """What the steps work with."""
        return self._site

    @property
    def load_counts(self) -> tuple[int, int]:
        """How many fragments are loaded, and how many there are."""
        return len(self._site.runners), len(set(self._loads.values()))

    def begin(self) -> None:
        """Start to load the fragments."""
        with self._lock:
            self._act(self._machine.begin())

    def take_piece(self, source: str, piece: PieceHeader, payload: memoryview) -> None:
        """Take one frame of this epoch from the fabric.

        Raises:
            RunError: The frame does not fit what the program says.
        """
        self._gate.check_piece(source, piece, payload)
        if piece.stream >= FIRST_FEED:
            self._take_feed(piece, payload)
            return
        stream, request, route = piece.stream, piece.request, piece.route
        with self._lock:
            if self.pieces.is_unread(stream, request):
                self._dropped += 1
                return
            self.pieces.arrive(stream, request, payload)
            try:
                actions = self._machine.handle(Arrived(stream, request, route))
            except ValueError:
                self.pieces.take(stream, request)
                self._dropped += 1
                return
            self._act(actions)

    def _take_feed(self, piece: PieceHeader, payload: memoryview) -> None:
        tensor = self.program.inputs[piece.stream - FIRST_FEED]
        with self._lock:
            fed = self._fed.setdefault(piece.request, {})
            fed[tensor.name] = payload
            if len(fed) < len(self.program.inputs):
                return
            del self._fed[piece.request]
            arrays = {spec.name: decode_feed(fed[spec.name], spec) for spec in self.program.inputs}
            buffers = self._site.buffers
            written = [(s.write, arrays[buffers[s.write].tensor]) for s in self._feeds]
            self._ready.append((Fed(piece.request, piece.route), tuple(written)))
            self._feed()

    def _feed(self) -> None:
        """Begin requests; an answer can reach the leader before its step is over here."""
        while self._ready and self._room > 0:
            self._room -= 1
            event, written = self._ready.popleft()
            self._handle(event, event.request, written)

    def credit(self, stream: int) -> None:
        """Take one credit of a stream."""
        with self._lock:
            self._handle(Credited(stream))

    def stats(self) -> Stats:
        """Return what the epoch has done, and what it waits for."""
        with self._lock:
            weights = weight_bytes(self.program, self._device.device)
            return Stats(
                busy_s=self.book.busy_s["compute"],
                peak_piece_bytes=self.pieces.peak_bytes,
                piece_bytes=self.pieces.bytes,
                weight_bytes=weights,
                sent=self.book.sent(),
                dropped=self._dropped,
                overruns=self.stretch.slow_down.overruns,
                waiting=tuple(
                    Waiting(w.step, w.request, w.label, w.reason)
                    for w in self._machine.state()[:64]
                ),
                worked=self.book.worked(),
            )

    def close(self) -> None:
        """Stop starting steps and let go of pieces and fragments."""
        with self._lock:
            self._is_closed = True
            self.pieces.clear()
            self._site.runners.clear()
            self._fed.clear()
            self._ready.clear()

    def _handle(self, event: Event, request: int = 0, written: tuple[Written, ...] = ()) -> None:
        """Pass an event to the machine and do what it says; the caller holds the lock."""
        if self._is_closed or self.error:
            return
        if written:
            self.pieces.keep(request, written)
        try:
            self._act(self._machine.handle(event))
        except Exception as error:  # a thread that ended here would leave the run hanging
            self._fail("the program", request, error)

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Start):
                self._start(self._works[action.step], action.request)
            elif isinstance(action, Free):
                self.pieces.drop(action.request, action.buffer)
            elif isinstance(action, GiveCredit):
                self._courier(partial(self._give_credit, action.stream))
            elif isinstance(action, StartLoad):
                self._start_load(action.step)
            elif isinstance(action, Delivered):
                self._room += 1
                self._feed()

    def _start(self, work: StepRunner, request: int) -> None:
        route = self._machine.route_of(request)
        if not work.is_instant:
            job = partial(self._do, work, request, route)
            if isinstance(work, DeliverWork) and self._is_lane and self._is_alone:
                self._last = job
            else:
                self._puts[work.step](job)
            return
        start_s = time.monotonic()
        try:
            written = work.do(request, route)
        except Exception as error:  # as for steps on lanes
            self._fail(work.label, request, error)
            return
        self.book.add(work.lane, work.step, request, start_s, time.monotonic())
        self._handle(Finished(work.step, request), request, written)

    def _do(self, work: StepRunner, request: int, route: tuple[int, ...]) -> None:
        if self._is_closed or self.error:
            return
        start_s = time.monotonic()
        try:
            written = work.do(request, route)
        except Exception as error:  # the leader hears of it, whatever the engine raised
            self._fail(work.label, request, error)
            return
        self.book.add(work.lane, work.step, request, start_s, time.monotonic())
        with self._lock:
            self._is_lane = True
            self._handle(Finished(work.step, request), request, written)
            self._is_lane = False
            last, self._last = self._last, None
        if last is not None:
            # With one request under way this thread has nothing else to do: no need to change.
            last()

    @property
    def _is_alone(self) -> bool:
        """Whether at most one request is under way; known on the requester only."""
        return self._room >= self.program.in_flight - 1

    def _start_load(self, step: int) -> None:
        name = f"{self._host.endpoint.name}/load"
        threading.Thread(target=self._load, args=(step,), name=name, daemon=True).start()

    def _load(self, step: int) -> None:
        info = self.program.fragments[self._loads[step]]
        start_s = time.monotonic()
        try:
            store = self._host.store
            graph = store.open(info.hash).tobytes()
            blobs = {name: store.open(name) for name in info.blobs}
            self._site.runners[self._loads[step]] = self._host.engine.load(graph, blobs)
        except Exception as error:  # any fault of graph or engine ends the deployment
            self._fail(f"load of fragment {info.hash[:12]}", -1, error)
            return
        self.book.add("load", step, -1, start_s, time.monotonic())
        with self._lock:
            self._handle(Loaded(step))

    def _give_credit(self, stream: int) -> None:
        source = self._site.streams[stream].source
        note = encode_note(Credit(self.epoch, stream))
        try:
            self._host.endpoint.notify(source, note)
        except PartitaError as error:
            self._fail(f"credit to {source}", -1, error)

    def _fail(self, step: str, request: int, error: Exception) -> None:
        """Remember the first failure and tell the leader."""
        if self._is_closed or self.error:
            return
        told = first_line(error)[:400]
        self.error = f"{step}: {told}"
        device = self._host.endpoint.name
        failure = Failure(self.epoch, device, step, request, told)
        self._courier(partial(self._tell_failure, encode_note(failure)))

    def _tell_failure(self, note: bytes) -> None:
        try:
            self._host.endpoint.notify(self.leader, note)
        except PartitaError:
            # Without its leader nobody is left to tell.
            return

    def fail(self, step: str, error: Exception) -> None:
        """Report a fault that was found outside a step, such as a rejected frame."""
        self._fail(step, -1, error)
