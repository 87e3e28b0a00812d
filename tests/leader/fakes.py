"""Workers that answer as a test says, and a clock that a test turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import msgspec
from tests.engine.test_slowed import VirtualClock

from partita.errors import LinkError, RunError
from partita.fabric import (
    Caller,
    MemoryFabric,
    PieceHeader,
    digest_stream,
    encode_header,
    encode_note,
)
from partita.fabric.frames import Beat, Failure, decode_header
from partita.leader.worker_group import WorkerGroup
from partita.program import Program
from partita.regions import encode_array
from partita.version import VERSION
from partita.worker.messages import (
    PROTOCOL_VERSION,
    Clock,
    Have,
    Info,
    Missing,
    Progress,
    Stats,
    Waiting,
    WorkerSpan,
    WorkerSpans,
    answer_streams,
    decode_message,
    encode_message,
)

Answer = msgspec.Struct | None | Exception


def info_of(name: str, **changes: object) -> Info:
    """Facts about a worker of this version, without limits."""
    facts = Info(name, VERSION, PROTOCOL_VERSION, 1, 10**9, 0, 1, (), "", 1.0)
    return msgspec.structs.replace(facts, **changes)


def stats_of(*waiting: Waiting, **changes: object) -> Stats:
    """The totals of a worker that has done nothing yet."""
    return msgspec.structs.replace(Stats(0.0, 0, 0, 0, (), 0, 0, waiting), **changes)


class FakeWorker:
    """A worker that loads nothing and computes nothing.

    Attributes:
        info: What it says of itself.
        stats: Its totals.
        spans: Its spans.
        seen: Methods that were called, in order.
        bodies: Per method, the bodies of its calls.
        answers: Per method, what to do instead of the usual.
        pieces: Headers and payloads that came.
    """

    def __init__(self, fabric: MemoryFabric, name: str) -> None:
        self.name = name
        self.info = info_of(name)
        self.stats = stats_of()
        self.spans: list[WorkerSpan] = []
        self.seen: list[str] = []
        self.bodies: dict[str, list[bytes]] = defaultdict(list)
        self.answers: dict[str, Callable[[bytes], Answer]] = {}
        self.pieces: list[tuple[PieceHeader, bytes]] = []
        self.endpoint = fabric.endpoint(name)
        self.endpoint.serve(self._answer)
        self.endpoint.on_data(
            lambda source, header, payload: self.pieces.append(
                (decode_header(source, header), bytes(payload))
            )
        )
        self.endpoint.announce(b"")

    def _answer(self, caller: Caller, method: str, body: bytes) -> bytes:
        self.seen.append(method)
        self.bodies[method].append(body)
        answer = self.answers.get(method, self._usual(method))(body)
        if isinstance(answer, Exception):
            raise answer
        return b"" if answer is None else encode_message(answer)

    def _usual(self, method: str) -> Callable[[bytes], Answer]:
        answers: dict[str, Callable[[bytes], Answer]] = {
            "hello": lambda body: self.info,
            "have": lambda body: Missing(decode_message(body, Have).hashes),
            "progress": lambda body: Progress(False, 1, 1),
            "stats": lambda body: self.stats,
            "spans": lambda body: WorkerSpans(tuple(self.spans)),
            "clock": lambda body: Clock(0.0),
        }
        return answers.get(method, lambda body: None)

    def beat(self, epoch: int, finished: int) -> None:
        """Send one heartbeat."""
        self.endpoint.notify("leader", encode_note(Beat(epoch, finished)))

    def fail(self, failure: Failure) -> None:
        """Report a failure."""
        self.endpoint.notify("leader", encode_note(failure))

    def answer_request(
        self, program: Program, number: int, array: object, epoch: int, **changes: object
    ) -> None:
        """Send the first output of a request, with changes to its header."""
        stream = answer_streams(program, "leader")[0]
        payload = encode_array(array, "raw")  # type: ignore[arg-type]
        facts: dict[str, object] = {
            "epoch": epoch,
            "request": number,
            "route": (),
            "stream": stream.id,
            "digest": digest_stream(stream),
            "payload_bytes": len(payload),
        }
        header = PieceHeader(**{**facts, **changes})  # type: ignore[arg-type]
        self.endpoint.send("leader", encode_header(header), payload)


class FakeLab:
    """Fake workers with a leader's group, everything on the caller's thread."""

    def __init__(self, *names: str) -> None:
        self.fabric = MemoryFabric(inline=True)
        self.leader = self.fabric.endpoint("leader")
        self.workers = {name: FakeWorker(self.fabric, name) for name in names}
        self.group = WorkerGroup(self.leader, names)


class InlinePool:
    """An executor that does all at once, on the caller's thread."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, call: Callable[..., object], *given: object) -> Future[Any]:
        """Do it, and return what is done."""
        future: Future[Any] = Future()
        future.set_result(call(*given))
        return future

    def shutdown(self, **_: object) -> None:
        """Nothing is under way."""


class Deployed:
    """A deployment that is there without having been made; see ``leader.Deployment``."""

    def __init__(self, lab: FakeLab, program: Program, epoch: int = 1) -> None:
        self.lab = lab
        self.program = program
        self.epoch = epoch
        self.devices = tuple(part.device for part in program.devices)
        self.is_prepared = True
        self.refusal: RunError | None = None
        self.retired = 0

    def stats(self, device: str, timeout_s: float = 1.0) -> Stats:
        """The totals of a device, if it answers."""
        return self.lab.group.ask(device, "stats", Clock(0.0), Stats, timeout_s=timeout_s)

    def spans(self, device: str) -> list[WorkerSpan]:
        """The spans of a device."""
        return self.lab.workers[device].spans

    def prepare(self, infos: object) -> None:
        """Be prepared, or refuse as told, once."""
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise refusal
        self.is_prepared = True

    def retire(self) -> None:
        """Count."""
        self.retired += 1


def fake_time(clock: VirtualClock) -> SimpleNamespace:
    """What a module may use of :mod:`time`, on a clock that sleeping turns."""

    def sleep(seconds: float) -> None:
        clock.time_s += seconds

    return SimpleNamespace(monotonic=clock.now_s, sleep=sleep)


def gone(device: str) -> LinkError:
    """The error of a worker that does not answer."""
    return LinkError(f"Device {device!r} did not answer.", device=device)
