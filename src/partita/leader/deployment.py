"""One epoch on a crew: content pushed, fragments loaded and timed, and taken down again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from partita.errors import RunError
from partita.leader.worker_group import WorkerGroup
from partita.program import Program
from partita.worker.messages import (
    CHUNK_BYTES,
    Calibrate,
    Have,
    Info,
    Missing,
    OfEpoch,
    Prepare,
    Progress,
    Put,
    SpansFrom,
    Stats,
    WorkerSpan,
    WorkerSpans,
    encode_message,
)

_POLL_S = 0.01
_MARKS_PER_CALL = 10_000
_last_epoch = 0


class Deployable(Protocol):
    """What can be deployed: a program, and the content that it names by hash."""

    @property
    def program(self) -> Program:
        """The steps of all devices."""

    @property
    def graphs(self) -> Mapping[str, bytes]:
        """Fragments by SHA-256."""

    @property
    def blobs(self) -> Mapping[str, Any]:
        """Weights (bytes or arrays) by SHA-256."""


@dataclass(frozen=True)
class DeployOptions:
    """How a plan is brought to the workers, and how patient the session is.

    Attributes:
        wait_s: Longest wait for missing workers.
        load_s: Longest wait for all fragments to be loaded and timed.
        repeats: Runs per fragment when an emulated device is calibrated.
        rounds: How often each emulated device is calibrated, apart in time.
        reference_s: The pace of the machine when it was profiled (``CostModel.reference_s``), which
            emulated devices then keep; 0 takes the machine as it is.
        trace: Whether workers keep what each lane did when.
        deadline_s: A run in which no step finishes for so long ends.
        silence_s: A worker not heard of for so long is lost.
        planner: Who made the plan, for the report.
        seed: The plan's seed, for the report.
    """

    wait_s: float = 10.0
    load_s: float = 120.0
    repeats: int = 5
    rounds: int = 3
    reference_s: float = 0.0
    trace: bool = True
    deadline_s: float = 30.0
    silence_s: float = 1.75
    planner: str = ""
    seed: int = 0


class Deployment:
    """A program under one epoch.

    Args:
        compiled: What to run.
        crew: The workers that it needs; all are there.
        options: Patience.
    """

    def __init__(self, compiled: Deployable, crew: WorkerGroup, options: DeployOptions) -> None:
        self.program = compiled.program
        self.epoch = _new_epoch()
        self.pushed_bytes = 0
        self._compiled = compiled
        self._crew = crew
        self.options = options
        self.devices = tuple(part.device for part in compiled.program.devices)

    def prepare(self, infos: Mapping[str, Info]) -> None:
        """Push, load, time and activate; afterwards requests may be fed.

        Args:
            infos: What each worker is.

        Raises:
            RunError: A worker refused or failed; the epoch is retired everywhere.
        """
        try:
            self._crew.each(self._push, self.devices)
            self._crew.each(self._load, self.devices)
            slowed = [name for name in self.devices if infos[name].slow_down > 1]
            self._crew.each(self._time, [n for n in self.devices if n not in slowed])
            # Emulated devices share a machine: each must be timed while the others rest, and more
            # than once, because the machine itself is slow at times.
            for name in slowed * self.options.rounds:
                self._time(name)
            activate = OfEpoch(self.epoch)
            self._crew.each(lambda n: self._crew.tell(n, "activate", activate), self.devices)
        except BaseException:
            self.retire()
            raise

    def retire(self) -> None:
        """Take the epoch down on every worker that still answers."""

        def tell(name: str) -> None:
            try:
                self._crew.tell(name, "retire", OfEpoch(self.epoch), 2.0)
            except RunError:
                # A worker that is gone has nothing left to take down.
                return

        there = self._crew.endpoint.peers() & set(self._crew.names)
        self._crew.each(tell, [name for name in self.devices if name in there])

    def stats(self, device: str, timeout_s: float = 1.0) -> Stats:
        """Return what the epoch did on a device so far."""
        body = encode_message(OfEpoch(self.epoch))
        answer = self._crew.endpoint.call(device, "stats", body, timeout_s)
        return msgspec.msgpack.decode(answer, type=Stats)

    def marks(self, device: str) -> list[WorkerSpan]:
        """All spans that a device kept, on its own clock."""
        found: list[WorkerSpan] = []
        while True:
            order = SpansFrom(self.epoch, len(found), _MARKS_PER_CALL)
            more = self._crew.ask(device, "spans", order, WorkerSpans).marks
            found += more
            if len(more) < _MARKS_PER_CALL:
                return found

    def _contents(self, device: str) -> dict[str, Any]:
        """All content that a device needs, graphs before weights."""
        infos = fragments_of(self.program, device)
        graphs = {info.hash: self._compiled.graphs[info.hash] for info in infos}
        blobs = {name: self._compiled.blobs[name] for info in infos for name in info.blobs}
        return {**graphs, **blobs}

    def _push(self, device: str) -> None:
        contents = self._contents(device)
        have = Have(self.epoch, tuple(contents))
        # The worker reads and hashes what it has: on a slow disk that takes its time.
        patience_s = self.options.load_s
        missing = self._crew.ask(device, "have", have, Missing, timeout_s=patience_s)
        for name in missing.hashes:
            data = as_bytes(contents[name])
            size = len(data)
            for offset in range(0, max(size, 1), CHUNK_BYTES):
                chunk = bytes(data[offset : offset + CHUNK_BYTES])
                self._crew.tell(device, "put", Put(name, offset, size, chunk))
            self.pushed_bytes += size

    def _load(self, device: str) -> None:
        own = msgspec.structs.replace(self.program, devices=(self.program.device(device),))
        leader = self._crew.endpoint.name
        self._crew.tell(device, "prepare", Prepare(self.epoch, own, leader, self.options.trace))
        self._wait(device, "load")

    def _time(self, device: str) -> None:
        order = Calibrate(self.epoch, self.options.repeats, self.options.reference_s)
        self._crew.tell(device, "calibrate", order)
        self._wait(device, "calibrate")

    def _wait(self, device: str, what: str) -> None:
        deadline_s = time.monotonic() + self.options.load_s
        while True:
            state = self._crew.ask(device, "progress", OfEpoch(self.epoch), Progress)
            if state.error:
                raise RunError(
                    f"Device {device!r} cannot {what} its part: {state.error}", device=device
                )
            if not state.busy:
                return
            if time.monotonic() > deadline_s:
                raise RunError(
                    f"Device {device!r} did not {what} its part within {self.options.load_s:g} s: "
                    f"{state.done} of {state.total} fragments are done. Allow more time.",
                    device=device,
                )
            time.sleep(_POLL_S)


def fragments_of(program: Program, device: str) -> tuple[Any, ...]:
    """Return what the device's program runs, each fragment once, in order of first use."""
    indices: dict[int, None] = {}
    for step in program.device(device).steps:
        fragment = getattr(step, "fragment", None)
        if fragment is not None:
            indices[fragment] = None
    return tuple(program.fragments[index] for index in indices)


def as_bytes(content: Any) -> memoryview:
    """A flat view of bytes or of an array's bytes."""
    if isinstance(content, np.ndarray):
        flat: npt.NDArray[np.uint8] = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        return flat.data
    return memoryview(content).cast("B")


def _new_epoch() -> int:
    """A number that no other epoch has: microseconds, so that leaders do not collide."""
    global _last_epoch
    _last_epoch = max(_last_epoch + 1, time.time_ns() // 1000)
    return _last_epoch
