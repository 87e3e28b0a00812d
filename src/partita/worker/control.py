"""A worker: epochs, and what a leader may ask for."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psutil

from partita.engine import Engine, Slowdown
from partita.errors import PartitaError, RunError, first_line
from partita.execution import weight_bytes
from partita.fabric import (
    Beat,
    Credit,
    Endpoint,
    PieceHeader,
    ShapedEndpoint,
    decode_note,
    encode_note,
)
from partita.fabric.frames import decode_piece
from partita.program import Program
from partita.units import format_bytes
from partita.version import VERSION
from partita.worker.calibration import calibrate_runtime
from partita.worker.lanes import Lanes
from partita.worker.messages import (
    PROTOCOL_VERSION,
    BeginTraces,
    Calibrate,
    Clock,
    Have,
    Hello,
    Info,
    Marks,
    Missing,
    OfEpoch,
    Prepare,
    Probe,
    Probed,
    Progress,
    Put,
    SpansFrom,
    check_version,
    decode_message,
    encode_message,
)
from partita.worker.probe import PROBE_EPOCH, Prober
from partita.worker.runtime import Runtime, WorkerResources
from partita.worker.store import Store

#: How often a worker tells its leaders that its own threads still turn.
BEAT_S = 0.25


@dataclass(frozen=True)
class WorkerParts:
    """What a worker is made of.

    Attributes:
        slow_down: Emulated slowness; the same object as the engine's.
        memory_limit_bytes: Most bytes of weights; 0 for no limit.
        fallback: What the engine says when a wished provider is missing; else empty.
        loaders: How many fragments may load at the same time.
        version: Package version that the worker says it has.
        protocol: Protocol version that the worker says it speaks.
    """

    engine: Engine
    store: Store
    slow_down: Slowdown = field(default_factory=Slowdown)
    memory_limit_bytes: int = 0
    threads: int = 1
    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    fallback: str = ""
    loaders: int = 1
    version: str = VERSION
    protocol: int = PROTOCOL_VERSION


class Worker:
    """Takes content and programs from leaders and runs them.

    Args:
        endpoint: The worker's way to the others; not yet announced. The caller closes it.
        parts: What it computes with.
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
        self._host = WorkerResources(
            endpoint, self._lanes, parts.store, parts.engine, parts.slow_down, parts.loaders
        )
        self._epochs: dict[int, Runtime] = {}
        self._jobs: dict[int, Progress] = {}
        self._prober = Prober(endpoint)
        self._closed = threading.Event()
        self._dropped = 0
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
            "clock": self._clock,
            "probe": self._probe,
            "begin_traces": self._begin_traces,
            "stop": self._stop,
        }

    def start(self) -> None:
        """Take calls and frames from now on, and be visible."""
        self.endpoint.on_data(self._take_frame)
        self.endpoint.on_notify(self._take_note)
        self.endpoint.on_error(self._take_fault)
        self.endpoint.serve(self._answer)
        self.endpoint.watch(self._watch)
        self.endpoint.announce(encode_message(self._info()))
        threading.Thread(target=self._beat, name=f"{self.name}/beat", daemon=True).start()

    def close(self) -> None:
        """End all epochs and threads; the endpoint stays."""
        self._closed.set()
        for epoch in list(self._epochs):
            self._end_epoch(epoch)
        self._lanes.close()
        self._parts.store.close()

    def _answer(self, method: str, body: bytes) -> bytes:
        handler = self._methods.get(method)
        if handler is None:
            raise RunError(f"Method {method!r} is unknown to partita {self._parts.version}.")
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
        )

    def _hello(self, body: bytes) -> Info:
        hello = decode_message(body, Hello)
        mine = (self._parts.version, self._parts.protocol)
        check_version((hello.version, hello.protocol), mine, self.name)
        return self._info()

    def _have(self, body: bytes) -> Missing:
        have = decode_message(body, Have)
        self._parts.store.pin(have.epoch, have.hashes)
        return Missing(self._parts.store.missing(have.hashes))

    def _put(self, body: bytes) -> None:
        put = decode_message(body, Put)
        self._parts.store.put_chunk(put.hash, put.offset, put.size_bytes, put.data)

    def _prepare(self, body: bytes) -> None:
        prepare = decode_message(body, Prepare)
        if prepare.epoch in self._epochs:
            raise RunError(f"Epoch {prepare.epoch} is prepared already on {self.name!r}.")
        self._check_memory(prepare.program)
        runtime = Runtime(prepare, self._host)
        self._epochs[prepare.epoch] = runtime
        runtime.begin()

    def _check_memory(self, program: Program) -> None:
        limit = self._parts.memory_limit_bytes
        needed = weight_bytes(program, self.name)
        held = sum(weight_bytes(epoch.program, self.name) for epoch in self._epochs.values())
        if limit and needed + held > limit:
            also = f" beside {format_bytes(held)} of another plan" if held else ""
            raise RunError(
                f"Worker {self.name!r} refuses the plan: weights need {format_bytes(needed)}{also},"
                f" its limit is {format_bytes(limit)}. Give it less, or raise --memory.",
                device=self.name,
            )

    def _progress(self, body: bytes) -> Progress:
        epoch = decode_message(body, OfEpoch).epoch
        runtime = self._runtime(epoch)
        job = self._jobs.get(epoch)
        if job is not None and not runtime.error:
            return job
        done, total = runtime.load_counts
        busy = not runtime.is_loaded and not runtime.error
        return Progress(busy, done, total, runtime.error)

    def _calibrate(self, body: bytes) -> None:
        order = decode_message(body, Calibrate)
        runtime = self._runtime(order.epoch)
        total = len(runtime.site.runners)
        self._jobs[order.epoch] = Progress(True, 0, total)
        name = f"{self.name}/calibrate"
        thread = threading.Thread(
            target=self._run_calibration, args=(runtime, order), name=name, daemon=True
        )
        thread.start()

    def _run_calibration(self, runtime: Runtime, order: Calibrate) -> None:
        total = len(runtime.site.runners)
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            self._jobs[order.epoch] = Progress(True, done, total)

        error = ""
        try:
            calibrate_runtime(runtime, order.repeats, tick, order.reference_s)
        except Exception as fault:  # travels to the leader as a message
            error = first_line(fault)
        self._jobs[order.epoch] = Progress(False, done, total, error)

    def _activate(self, body: bytes) -> None:
        runtime = self._runtime(decode_message(body, OfEpoch).epoch)
        if runtime.error or not runtime.is_loaded:
            raise RunError(f"Epoch {runtime.epoch} is not ready on {self.name!r}.")
        # What is loaded lives as long as the epoch: no garbage collection needs to look at it.
        gc.collect()
        gc.freeze()

    def _retire(self, body: bytes) -> None:
        self._end_epoch(decode_message(body, OfEpoch).epoch)

    def _end_epoch(self, epoch: int) -> None:
        runtime = self._epochs.pop(epoch, None)
        self._jobs.pop(epoch, None)
        if runtime is not None:
            runtime.close()
        self._parts.store.unpin(epoch)
        gc.unfreeze()

    def _spans(self, body: bytes) -> Marks:
        order = decode_message(body, SpansFrom)
        return Marks(self._runtime(order.epoch).book.marks(order.first, order.count))

    def _stats(self, body: bytes) -> object:
        return self._runtime(decode_message(body, OfEpoch).epoch).stats()

    def _clock(self, body: bytes) -> Clock:
        return Clock(time.monotonic())

    def _probe(self, body: bytes) -> Probed:
        order = decode_message(body, Probe)
        return Probed(self._prober.measure(order.target, order.size_bytes, order.repeats))

    def _begin_traces(self, body: bytes) -> None:
        at_s = decode_message(body, BeginTraces).at_s
        if isinstance(self.endpoint, ShapedEndpoint):
            self.endpoint.begin_traces(at_s)

    def _stop(self, body: bytes) -> None:
        self._on_stop()

    def _runtime(self, epoch: int) -> Runtime:
        runtime = self._epochs.get(epoch)
        if runtime is None:
            raise RunError(f"Epoch {epoch} is not prepared on {self.name!r}.", device=self.name)
        return runtime

    def _take_frame(self, source: str, header: bytes, payload: memoryview) -> None:
        try:
            piece: PieceHeader = decode_piece(source, header)
            if piece.epoch == PROBE_EPOCH:
                self._prober.answer(source, piece)
                return
            runtime = self._epochs.get(piece.epoch)
            if runtime is None:
                self._dropped += 1
                return
            runtime.take_piece(source, piece, payload)
        except RunError as error:
            self._take_fault(error)
        except Exception as error:  # reported, so that the run ends instead of waiting
            self._take_fault(RunError(f"{type(error).__name__}: {error}", device=self.name))

    def _take_fault(self, error: RunError) -> None:
        """End what a bad frame or a lost one belongs to: it could never be answered."""
        for runtime in list(self._epochs.values()):
            if error.device in runtime.members:
                runtime.fail("network", error)
        self._dropped += 1

    def _take_note(self, source: str, body: bytes) -> None:
        note = decode_note(source, body)
        if isinstance(note, Credit):
            if note.epoch == PROBE_EPOCH:
                self._prober.take_echo(note.stream)
            runtime = self._epochs.get(note.epoch)
            if runtime is not None:
                runtime.credit(note.stream)

    def _watch(self, name: str, alive: bool) -> None:
        if alive:
            self._prober.find(name)
        else:
            self._prober.lose(name)
            for epoch, runtime in list(self._epochs.items()):
                if runtime.leader == name:
                    self._end_epoch(epoch)

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_S):
            for epoch, runtime in list(self._epochs.items()):
                try:
                    self.endpoint.notify(
                        runtime.leader, encode_note(Beat(epoch, runtime.book.finished))
                    )
                except PartitaError:
                    continue
