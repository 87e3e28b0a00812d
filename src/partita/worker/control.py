"""A worker: its epochs, and the calls that leaders may make."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psutil

from partita.engine import Engine, Slowdown
from partita.errors import PartitaError, RunError, name_error
from partita.fabric import (
    Beat,
    Caller,
    Credit,
    Endpoint,
    ShapedEndpoint,
    decode_note,
    encode_note,
)
from partita.fabric.frames import decode_header
from partita.host import clock_origin, host_name, time_of_day_s
from partita.memory import release
from partita.program import Program, check_part
from partita.regions import list_formats
from partita.version import VERSION
from partita.worker.calibration import Calibrations
from partita.worker.lanes import Lanes
from partita.worker.leaders import ASK_LEADERS, Leaders, check_leader
from partita.worker.measurer import Measurer
from partita.worker.memory_limit import MemoryLimit
from partita.worker.messages import (
    PROTOCOL_VERSION,
    BeginTraces,
    Calibrate,
    Clock,
    Have,
    Hello,
    Info,
    Measure,
    Measured,
    MessageTimes,
    Missing,
    OfEpoch,
    Prepare,
    Progress,
    Put,
    SpansFrom,
    TimeMessages,
    WorkerSpans,
    check_version,
    decode_message,
    encode_message,
)
from partita.worker.port_turns import PortTurns
from partita.worker.probe import PROBE_EPOCH, Prober
from partita.worker.runtime import Runtime, WorkerResources
from partita.worker.store import Store

#: Interval of a worker's heartbeat: seven fit into the 1.75 s of silence after which it is lost.
BEAT_S = 0.25
#: A leader has two while it changes plans; its steps compute, decode, deliver, and send to each
#: other device on a thread of its own. Not tuned.
MAX_PLANS, MAX_LANES = 32, 256
#: What changes nothing, and says nothing of inputs and answers.
_FOR_EVERYONE = frozenset({"hello", "clock", "stats", "progress"})


@dataclass(frozen=True)
class WorkerParts:
    """The parts of a worker.

    Attributes:
        slow_down: Emulated slowness; the same object as the engine's.
        memory_limit_bytes, idle_bytes: See :class:`~partita.worker.memory_limit.MemoryLimit`.
        fallback: The engine's message where a chosen provider is missing; else empty.
        max_plans: Most plans that are prepared at the same time.
        max_lanes: Most threads that their steps run on.
    """

    engine: Engine
    store: Store
    slow_down: Slowdown = field(default_factory=Slowdown)
    memory_limit_bytes: int = 0
    idle_bytes: int = 0
    threads: int = 1
    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    fallback: str = ""
    loaders: int = 1
    max_plans: int = MAX_PLANS
    max_lanes: int = MAX_LANES
    version: str = VERSION
    protocol: int = PROTOCOL_VERSION


class Worker:
    """Takes content and programs from leaders and runs them.

    Args:
        endpoint: The worker's own, not yet announced. The caller closes it.
        on_stop: Called when a leader asks the worker to end.
    """

    def __init__(
        self, endpoint: Endpoint, parts: WorkerParts, on_stop: Callable[[], None] = lambda: None
    ) -> None:
        self.endpoint = endpoint
        self.name = endpoint.name
        self._parts = parts
        self._on_stop = on_stop
        self._lanes = Lanes(self.name)
        self._resources = WorkerResources(
            endpoint,
            self._lanes,
            parts.store,
            parts.engine,
            parts.slow_down,
            parts.loaders,
            MemoryLimit(self.name, parts.memory_limit_bytes, parts.idle_bytes),
            None if isinstance(endpoint, ShapedEndpoint) else PortTurns(),
        )
        self._epochs: dict[int, Runtime] = {}
        self._calibrations = Calibrations(self.name)
        self._leaders = Leaders(endpoint)
        self._changing = threading.Lock()
        self._prober = Prober(endpoint)
        self._measurer = Measurer(self.name, parts.engine, parts.store)
        self._closed = threading.Event()
        self._methods: Mapping[str, Callable[[bytes], object]] = {
            "hello": self._hello,
            "have": self._have,
            "put": self._put,
            "prepare": self._prepare,
            "progress": self._progress,
            "calibrate": self._calibrate,
            "activate": self._activate,
            "retire": self._retire,
            "spans": self._spans,
            "stats": self._stats,
            "clock": lambda body: Clock(time.monotonic(), clock_origin(), time_of_day_s()),
            "probe": self._probe,
            "measure": self._measure,
            "measured": self._measured,
            "begin_traces": self._begin_traces,
            "stop": lambda body: self._on_stop(),
        }

    def start(self) -> None:
        """Announce the worker; calls and frames are taken from now on."""
        self.endpoint.on_data(self._on_frame)
        self.endpoint.on_notify(self._on_note)
        self.endpoint.on_error(self._on_fault)
        self.endpoint.serve(self._answer)
        self.endpoint.watch(self._on_presence)
        self.endpoint.announce(encode_message(self._info()))
        threading.Thread(target=self._beat, name=f"{self.name}/beat", daemon=True).start()

    @property
    def is_idle(self) -> bool:
        """Whether no plan is there."""
        return not self._epochs

    def close(self) -> None:
        """End all epochs and threads; the endpoint stays."""
        self._closed.set()
        for epoch in list(self._epochs):
            self._end_epoch(epoch)
        self._lanes.close()
        self._parts.store.close()

    def _answer(self, caller: Caller, method: str, body: bytes) -> bytes:
        if method == ASK_LEADERS:
            return encode_message(self._leaders.pass_on(caller, body))
        handler = self._methods.get(method)
        if handler is None:
            raise RunError(f"Method {method!r} is unknown to partita {self._parts.version}.")
        if method not in _FOR_EVERYONE:
            check_leader(caller, method)
            self._resources.memory.begin()
        answer = handler(body)
        return b"" if answer is None else encode_message(answer)  # type: ignore[arg-type]

    def _info(self) -> Info:
        parts = self._parts
        return Info(
            name=self.name,
            version=parts.version,
            protocol=parts.protocol,
            cpus=os.cpu_count() or 1,
            memory_bytes=psutil.virtual_memory().total,
            memory_limit_bytes=parts.memory_limit_bytes,
            threads=parts.threads,
            providers=parts.providers,
            fallback=parts.fallback,
            slow_down=parts.slow_down.factor,
            paced=isinstance(self.endpoint, ShapedEndpoint),
            host=host_name(),
            formats=list_formats(),
            disk=parts.store.measure_disk(),
        )

    def _hello(self, body: bytes) -> Info:
        hello = decode_message(body, Hello)
        mine = (self._parts.version, self._parts.protocol)
        check_version((hello.version, hello.protocol), mine, self.name)
        return self._info()

    def _have(self, body: bytes) -> Missing:
        have = decode_message(body, Have)
        self._parts.store.lease(have.epoch, have.hashes, have.spare_of)
        return Missing(self._parts.store.missing(have.hashes))

    def _put(self, body: bytes) -> None:
        put = decode_message(body, Put)
        self._parts.store.put_chunk(put.hash, put.offset, put.size_bytes, put.data)

    def _prepare(self, body: bytes) -> None:
        prepare = decode_message(body, Prepare)
        faults = check_part(prepare.program, self.name)
        if faults:
            raise RunError(
                f"Worker {self.name!r} refuses the program: {faults[0]}. Plan again with the same "
                "version on leader and worker.",
                device=self.name,
            )
        running = (epoch.program for epoch in self._epochs.values())
        self._resources.memory.check_weights(prepare.program, running)
        with self._changing:
            if prepare.epoch in self._epochs:
                raise RunError(f"Epoch {prepare.epoch} is prepared already on {self.name!r}.")
            self._check_room(prepare.program)
            runtime = Runtime(prepare, self._resources)
            self._leaders.meet(prepare.leader)
            self._register(prepare, runtime)
        runtime.begin()

    def _register(self, prepare: Prepare, runtime: Runtime) -> None:
        contents = {n for info in prepare.program.fragments for n in (info.hash, *info.blobs)}
        self._parts.store.pin(prepare.epoch, contents)
        self._epochs[prepare.epoch] = runtime

    def _check_room(self, program: Program) -> None:
        """Refuse a program that takes more epochs or threads than the worker has."""
        if len(self._epochs) >= self._parts.max_plans:
            raise RunError(
                f"Worker {self.name!r} holds {len(self._epochs)} plans already, which is its most "
                "(--plans); end one first.",
                device=self.name,
            )
        targets = {s.target for s in program.streams if s.source == self.name}
        held = frozenset[str]().union(*(epoch.lane_names for epoch in self._epochs.values()))
        lanes = held | {f"send:{target}" for target in targets}
        if len(lanes) > self._parts.max_lanes:
            raise RunError(
                f"Worker {self.name!r} refuses the plan: it sends to {len(targets)} devices and "
                f"would need {len(lanes)} threads, its most is {self._parts.max_lanes} "
                "(--lanes).",
                device=self.name,
            )

    def _progress(self, body: bytes) -> Progress:
        epoch = decode_message(body, OfEpoch).epoch
        runtime = self._runtime(epoch)
        job = self._calibrations.progress(epoch)
        if job is not None and not runtime.error:
            return job
        done, total = runtime.load_counts
        busy = not runtime.is_loaded and not runtime.error
        return Progress(busy, done, total, runtime.error, runtime.peer)

    def _calibrate(self, body: bytes) -> None:
        order = decode_message(body, Calibrate)
        self._calibrations.begin(self._runtime(order.epoch), order)

    def _activate(self, body: bytes) -> None:
        runtime = self._runtime(decode_message(body, OfEpoch).epoch)
        if runtime.error or not runtime.is_loaded:
            raise RunError(f"Epoch {runtime.epoch} is not ready on {self.name!r}.")
        # Loaded objects live as long as the epoch: the collector need not traverse them.
        gc.collect()
        gc.freeze()
        if len(self._epochs) == 1:  # beside a plan that runs it would wait for pages again
            release()
        self._resources.memory.check()

    def _retire(self, body: bytes) -> None:
        self._end_epoch(decode_message(body, OfEpoch).epoch)

    def _end_epoch(self, epoch: int) -> None:
        with self._changing:
            runtime = self._epochs.pop(epoch, None)
            self._calibrations.forget(epoch)
            if runtime is not None:
                runtime.close()
                self._lanes.keep({n for left in self._epochs.values() for n in left.lane_names})
                gc.unfreeze()
        self._measurer.forget(epoch)
        self._parts.store.unpin(epoch)
        if not self._epochs:  # beside a plan that runs it would wait for pages again
            release()

    def _spans(self, body: bytes) -> WorkerSpans:
        order = decode_message(body, SpansFrom)
        return WorkerSpans(self._runtime(order.epoch).log.spans(order.first, order.count))

    def _stats(self, body: bytes) -> object:
        return self._runtime(decode_message(body, OfEpoch).epoch).stats()

    def _probe(self, body: bytes) -> MessageTimes:
        return MessageTimes(self._prober.measure(decode_message(body, TimeMessages).flows))

    def _measure(self, body: bytes) -> None:
        order = decode_message(body, Measure)
        if self._epochs:
            raise RunError(
                f"Worker {self.name!r} runs a plan; it is profiled when that is over.",
                device=self.name,
            )
        self._measurer.begin(order)

    def _measured(self, body: bytes) -> Measured:
        return self._measurer.result(decode_message(body, OfEpoch).epoch)

    def _begin_traces(self, body: bytes) -> None:
        at_s = decode_message(body, BeginTraces).at_s
        if isinstance(self.endpoint, ShapedEndpoint):
            self.endpoint.begin_traces(at_s)

    def _runtime(self, epoch: int) -> Runtime:
        runtime = self._epochs.get(epoch)
        if runtime is None:
            raise RunError(f"Epoch {epoch} is not prepared on {self.name!r}.", device=self.name)
        return runtime

    def _on_frame(self, source: str, header_bytes: bytes, payload: memoryview) -> None:
        try:
            header = decode_header(source, header_bytes)
            if header.epoch == PROBE_EPOCH:
                self._prober.acknowledge(source, header)
                return
            runtime = self._epochs.get(header.epoch)
            if runtime is not None:  # else a late frame of an epoch that is over
                runtime.take_piece(source, header, payload)
        except RunError as error:
            self._on_fault(error)
        except Exception as error:  # reported, so that the run ends instead of waiting
            self._on_fault(RunError(name_error(error), device=self.name))

    def _on_fault(self, error: RunError) -> None:
        """Fail the epochs that a rejected or lost frame may belong to: no answer could come."""
        for runtime in list(self._epochs.values()):
            if error.device in runtime.members:
                runtime.fail("network", error)

    def _on_note(self, source: str, body: bytes) -> None:
        note = decode_note(source, body)
        if isinstance(note, Credit):
            if note.epoch == PROBE_EPOCH:
                self._prober.on_acknowledged(note.stream)
            if (runtime := self._epochs.get(note.epoch)) is not None:
                runtime.credit(source, note.stream)

    def _on_presence(self, name: str, alive: bool) -> None:
        if alive:
            self._prober.on_found(name)
        else:
            self._prober.on_lost(name)
            self._parts.store.release(name)
            for epoch, runtime in list(self._epochs.items()):
                if runtime.leader == name:
                    self._end_epoch(epoch)
            self._leaders.part(name)

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_S):
            for epoch, runtime in list(self._epochs.items()):
                try:
                    self.endpoint.notify(
                        runtime.leader, encode_note(Beat(epoch, runtime.log.finished))
                    )
                except PartitaError:
                    continue
            self._check_memory()

    def _check_memory(self) -> None:
        """End what runs here once it holds more than it may: pieces come after loading."""
        epochs = list(self._epochs.values())
        if not epochs or not all(runtime.is_loaded for runtime in epochs):
            return  # what loads holds more for a while
        try:
            self._resources.memory.check()
        except RunError as error:
            for runtime in epochs:
                runtime.fail("memory", error)
