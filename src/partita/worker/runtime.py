"""One epoch of a program on one device: the state machine driven by real events.

There is no event loop: whichever thread has an event (a lane that finished a step, the fabric with
a frame) takes the lock, steps the machine, and enqueues what it starts. That saves two context
switches per step.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import starmap

from partita.engine import Engine, Slowdown
from partita.errors import LinkError, PartitaError, RunError, first_line
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
    Route,
    Start,
    StartLoad,
    weight_bytes,
)
from partita.execution.pieces import decode_feed, index_buffers
from partita.fabric import Credit, Endpoint, Failure, PieceGate, PieceHeader, encode_note
from partita.program import DeviceProgram, Feed, Load
from partita.worker.buffers import BufferTable, StepLog, Written
from partita.worker.lanes import Lanes
from partita.worker.memory_limit import MemoryLimit
from partita.worker.messages import (
    FIRST_FEED,
    LaneQueue,
    Prepare,
    Stats,
    Waiting,
    answer_streams,
    feed_streams,
)
from partita.worker.port_turns import PortTurns
from partita.worker.step_runners import (
    DeliverRunner,
    SendRunner,
    StepContext,
    StepPacing,
    StepRunner,
    make_step_runner,
)
from partita.worker.store import Store

#: Waits and characters per answer: enough for people, and a note stays far below a frame's limit.
_MAX_WAITS, _MAX_MESSAGE_CHARS = 64, 400
#: A leader may feed as many requests as are under way before it is known here that they are over.
_MAX_WAITING_FEEDS = 2
#: The lane of credits and failures.
_NOTES = "credits"


@dataclass(frozen=True)
class WorkerResources:
    """The resources that all epochs of one worker share.

    Attributes:
        loaders: How many fragments may load at the same time.
        slow_down: Emulated slowness, the same object as the engine's.
        port_turns: Turns of messages at the port; None where emulated links give them.
    """

    endpoint: Endpoint
    lanes: Lanes
    store: Store
    engine: Engine
    slow_down: Slowdown = field(default_factory=Slowdown)
    loaders: int = 1
    memory: MemoryLimit = field(default_factory=MemoryLimit)
    port_turns: PortTurns | None = None


class Runtime:
    """The device's part of one program under one epoch.

    Attributes:
        step_runners: By id, the runners of all steps but loads and feeds, in program order.
    """

    def __init__(self, prepare: Prepare, resources: WorkerResources) -> None:
        self.epoch = prepare.epoch
        self.leader = prepare.leader
        self.program = prepare.program
        self._prepack = prepare.prepack
        self.error = self.peer = ""
        self.log = StepLog(prepare.trace)
        self.arrays = BufferTable()
        self.pacing = StepPacing(resources.slow_down)
        self._resources = resources
        self._device: DeviceProgram = prepare.program.device(resources.endpoint.name)
        self._lock = threading.Lock()
        self._machine = Machine(
            self._device, self.program.streams, self.program.in_flight, loaders=resources.loaders
        )
        self.context = self._make_context()
        runners = (make_step_runner(step, self.context) for step in self._device.steps)
        self.step_runners = {runner.step: runner for runner in runners if runner is not None}
        lane = resources.lanes.lane
        self._put_on_lane = {n: lane(r.lane).put for n, r in self.step_runners.items()}
        self._put_note = lane(_NOTES).put
        self._loads = {s.id: s.fragment for s in self._device.steps if isinstance(s, Load)}
        self._feeds = [s for s in self._device.steps if isinstance(s, Feed)]
        self._partly_fed: dict[int, dict[str, memoryview]] = {}
        self._admissible: deque[tuple[Fed, tuple[Written, ...]]] = deque()
        self._free_slots = prepare.program.in_flight
        self._is_on_lane = False
        self._inline_job: Callable[[], None] | None = None
        self._dropped = 0
        self._is_closed = False

    def _make_context(self) -> StepContext:
        program, endpoint = self.program, self._resources.endpoint
        is_requester = endpoint.name == program.requester
        streams = program.streams + (feed_streams(program, self.leader) if is_requester else ())
        self._gate = PieceGate(self.epoch, endpoint.name, streams)
        return StepContext(
            epoch=self.epoch,
            endpoint=endpoint,
            arrays=self.arrays,
            log=self.log,
            pacing=self.pacing,
            buffers=index_buffers(self._device),
            streams={stream.id: stream for stream in streams},
            answers=answer_streams(program, self.leader),
            runners={},
            port_turns=self._resources.port_turns,
            port_bytes_per_s=self._device.port_bytes_per_s,
        )

    @property
    def is_loaded(self) -> bool:
        """Whether every fragment is ready."""
        return self._machine.is_loaded

    @property
    def members(self) -> frozenset[str]:
        """This device, those it exchanges pieces with, and the leader."""
        own = self._device.device
        pairs = [(s.source, s.target) for s in self.program.streams]
        ends = {end for pair in pairs if own in pair for end in pair}
        return frozenset(ends | {own, self.leader})

    @property
    def lane_names(self) -> frozenset[str]:
        """The lanes that the epoch's steps and notes run on."""
        return frozenset({_NOTES, *(runner.lane for runner in self.step_runners.values())})

    @property
    def load_counts(self) -> tuple[int, int]:
        """The number of loaded fragments, and of all."""
        return len(self.context.runners), len(set(self._loads.values()))

    def begin(self) -> None:
        """Start to load the fragments."""
        with self._lock:
            self._act(self._machine.begin())

    def take_piece(self, source: str, header: PieceHeader, payload: memoryview) -> None:
        """Take one frame of this epoch from the fabric.

        Raises:
            RunError: The frame does not fit what the program says.
        """
        self._gate.check(source, header, payload)
        if header.stream >= FIRST_FEED:
            self._take_feed(source, header, payload)
            return
        stream, request, route = header.stream, header.request, header.route
        with self._lock:
            if self._is_closed or self.arrays.is_unread(stream, request):
                self._dropped += 1
                return
            self.arrays.arrive(stream, request, payload)
            try:
                actions = self._machine.handle(Arrived(stream, request, route))
            except ValueError:  # a duplicate, or a piece of a request that is finished here
                self.arrays.take(stream, request)
                self._dropped += 1
                return
            self._act(actions)

    def _take_feed(self, source: str, header: PieceHeader, payload: memoryview) -> None:
        tensor = self.program.inputs[header.stream - FIRST_FEED]
        with self._lock:
            waiting = len(self._partly_fed) + len(self._admissible)
            if waiting >= _MAX_WAITING_FEEDS * self.program.in_flight:
                raise RunError(
                    f"Frame from {source!r} rejected: {waiting} requests wait to begin, the plan "
                    f"has at most {self.program.in_flight} under way.",
                    device=source,
                )
            fed = self._partly_fed.setdefault(header.request, {})
            fed[tensor.name] = payload
            if len(fed) < len(self.program.inputs):
                return
            del self._partly_fed[header.request]
            arrays = {spec.name: decode_feed(fed[spec.name], spec) for spec in self.program.inputs}
            buffers = self.context.buffers
            written = [(s.write, arrays[buffers[s.write].tensor]) for s in self._feeds]
            self._admissible.append((Fed(header.request, header.route), tuple(written)))
            self._admit()

    def _admit(self) -> None:
        """Begin waiting requests; the leader may feed the next before ``Deliver`` is over here."""
        while self._admissible and self._free_slots > 0:
            self._free_slots -= 1
            event, written = self._admissible.popleft()
            self._handle(event, event.request, written)

    def credit(self, source: str, stream: int) -> None:
        """Take one credit of a stream; of others than its target, or strangers, none counts."""
        known = self.context.streams.get(stream)
        if source not in self.members if known is None else known.target != source:
            return
        with self._lock:
            self._handle(Credited(stream))

    def stats(self) -> Stats:
        """The sums of the epoch so far, and the steps that wait.

        Steps are held up only while these are listed: quantiles and memory take milliseconds.
        """
        with self._lock:
            waiting = self._machine.state(_MAX_WAITS)
            queues = tuple(starmap(LaneQueue, self._machine.queues.items()))
        return Stats(
            busy_s=self.log.busy_s["compute"],
            peak_piece_bytes=self.arrays.peak_bytes,
            piece_bytes=self.arrays.bytes,
            weight_bytes=weight_bytes(self.program, self._device.device),
            sent=self.log.sent(),
            dropped=self._dropped,
            overruns=self.pacing.slow_down.overruns,
            waiting=tuple(Waiting(*wait) for wait in waiting),
            worked=self.log.computed(),
            queues=queues,
            resident_bytes=self._resources.memory.resident_bytes,
        )

    def close(self) -> None:
        """Stop starting steps and release arrays and fragments."""
        with self._lock:
            self._is_closed = True
            self.arrays.clear()
            self.context.runners.clear()
            self._partly_fed.clear()
            self._admissible.clear()

    def _handle(self, event: Event, request: int = 0, written: tuple[Written, ...] = ()) -> None:
        """Pass an event to the machine and do what it says; the caller holds the lock."""
        if self._is_closed or self.error:
            return
        if written:
            self.arrays.keep(request, written)
        try:
            self._act(self._machine.handle(event))
        except Exception as error:  # a thread that ended here would leave the run hanging
            self._fail("the program", request, error)

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Start):
                self._start(self.step_runners[action.step], action.request)
            elif isinstance(action, Free):
                self.arrays.drop(action.request, action.buffer)
            elif isinstance(action, GiveCredit):
                self._put_note(partial(self._give_credit, action.stream))
            elif isinstance(action, StartLoad):
                self._start_load(action.step)
            elif isinstance(action, Delivered):
                self._free_slots += 1
                self._admit()

    def _start(self, runner: StepRunner, request: int) -> None:
        route = self._machine.route_of(request)
        if runner.is_instant:
            written = self._run_timed(runner, request, route)
            if written is not None:
                self._handle(Finished(runner.step, request), request, written)
            return
        if isinstance(runner, SendRunner):
            runner.take_turn(request)
        job = partial(self._run, runner, request, route)
        if isinstance(runner, DeliverRunner) and self._is_on_lane and self._is_alone:
            self._inline_job = job
        else:
            self._put_on_lane[runner.step](job)

    def _run(self, runner: StepRunner, request: int, route: Route) -> None:
        """Do a step on its lane, and tell the machine."""
        if self._is_closed or self.error:
            return
        written = self._run_timed(runner, request, route)
        if written is None:
            return
        with self._lock:
            self._is_on_lane = True
            self._handle(Finished(runner.step, request), request, written)
            self._is_on_lane = False
            job, self._inline_job = self._inline_job, None
        if job is not None:
            # With one request under way this thread has nothing else to do: no context switch.
            job()

    def _run_timed(
        self, runner: StepRunner, request: int, route: Route
    ) -> tuple[Written, ...] | None:
        """What a step wrote, its span in the log; None where it failed, which the leader hears."""
        start_s = time.monotonic()
        try:
            written = runner.run(request, route)
        except Exception as error:  # whatever the engine raised
            self._fail(runner.label, request, error)
            return None
        self.log.add(runner.lane, runner.step, request, start_s, time.monotonic())
        return written

    @property
    def _is_alone(self) -> bool:
        """Whether at most one request is under way; known on the requester only."""
        return self._free_slots >= self.program.in_flight - 1

    def _start_load(self, step: int) -> None:
        name = f"{self._resources.endpoint.name}/load"
        threading.Thread(target=self._load, args=(step,), name=name, daemon=True).start()

    def _load(self, step: int) -> None:
        info = self.program.fragments[self._loads[step]]
        start_s = time.monotonic()
        try:
            store = self._resources.store
            graph = store.open(info.hash).tobytes()
            blobs = {name: store.open(name) for name in info.blobs}
            self.context.runners[self._loads[step]] = self._resources.engine.load(
                graph, blobs, prepack=self._prepack
            )
            if len(set(self.load_counts)) == 1:
                self._resources.memory.settle()
        except Exception as error:  # any fault of graph or engine ends the deployment
            self._fail(f"load of fragment {info.hash[:12]}", -1, error)
            return
        self.log.add("load", step, -1, start_s, time.monotonic())
        with self._lock:
            self._handle(Loaded(step))

    def _give_credit(self, stream: int) -> None:
        source = self.context.streams[stream].source
        note = encode_note(Credit(self.epoch, stream))
        try:
            self._resources.endpoint.notify(source, note)
        except PartitaError as error:
            self._fail(f"credit to {source}", -1, error)

    def _fail(self, step: str, request: int, error: Exception) -> None:
        """Remember the first failure and tell the leader."""
        if self._is_closed or self.error:
            return
        message = first_line(error)[:_MAX_MESSAGE_CHARS]
        self.error = f"{step}: {message}"
        self.peer = error.device if isinstance(error, LinkError) else ""
        name = self._resources.endpoint.name
        failure = Failure(self.epoch, name, step, request, message, self.peer)
        self._put_note(partial(self._tell_failure, encode_note(failure)))

    def _tell_failure(self, note: bytes) -> None:
        with contextlib.suppress(PartitaError):  # a lost leader has no use for it
            self._resources.endpoint.notify(self.leader, note)

    def fail(self, step: str, error: Exception) -> None:
        """Report a fault that was found outside a step, such as a rejected frame."""
        self._fail(step, -1, error)
