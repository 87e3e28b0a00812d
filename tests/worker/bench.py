"""One worker's epoch on a test bench: jobs run when the test says so, frames are kept."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from tests.worker.tiny import Tiny

from partita.engine import Blob, Engine, OrtEngine, Slowdown
from partita.fabric import (
    MemoryEndpoint,
    MemoryFabric,
    Note,
    PieceHeader,
    decode_note,
    digest_stream,
)
from partita.fabric.frames import decode_header
from partita.program import Stream, TensorSpec
from partita.regions import Array, wire_bytes
from partita.worker import Store
from partita.worker.lanes import Lanes
from partita.worker.messages import Prepare, feed_streams
from partita.worker.runtime import Runtime, WorkerResources

EPOCH = 7


class ManualLanes(Lanes):
    """Lanes without threads: jobs wait, in order, until :meth:`run` is called.

    Attributes:
        seen: Names of lanes that got a job, in order.
    """

    def __init__(self) -> None:
        super().__init__("bench")
        self.seen: list[str] = []
        self._waiting: deque[Callable[[], None]] = deque()

    def lane(self, name: str) -> ManualLane:  # type: ignore[override]
        """A lane whose jobs wait."""
        return ManualLane(self, name)

    def run(self, most: int = 1000) -> int:
        """Run waiting jobs and those that they put, at most ``most``; how many ran."""
        count = 0
        while self._waiting and count < most:
            self._waiting.popleft()()
            count += 1
        return count


@dataclass
class ManualLane:
    """One lane of :class:`ManualLanes`."""

    lanes: ManualLanes
    name: str

    def put(self, job: Callable[[], None]) -> None:
        """Keep a job until the bench runs it."""
        self.lanes.seen.append(self.name)
        self.lanes._waiting.append(job)


@dataclass
class Ear:
    """Another device or the leader: keeps what it gets."""

    endpoint: MemoryEndpoint
    pieces: list[tuple[PieceHeader, bytes]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.endpoint.on_data(self._on_data)
        self.endpoint.on_notify(lambda source, body: self.notes.append(decode_note(source, body)))
        self.endpoint.announce(b"")

    def _on_data(self, source: str, header: bytes, payload: memoryview) -> None:
        self.pieces.append((decode_header(source, header), bytes(payload)))


class Bench:
    """A runtime of device ``name`` with all other devices and the leader as ears.

    Args:
        tiny: What it runs.
        root: Directory of its store.
        name: The device.
        engine: Computes; ONNX Runtime by default.
        is_stocked: Whether the content is in the store.
    """

    def __init__(
        self,
        tiny: Tiny,
        root: Path,
        name: str = "d0",
        *,
        engine: Engine | None = None,
        slow_down: Slowdown | None = None,
        is_stocked: bool = True,
    ) -> None:
        fabric = MemoryFabric(inline=True)
        others = {part.device for part in tiny.program.devices} - {name} | {"leader"}
        self.ears = {other: Ear(fabric.endpoint(other)) for other in sorted(others)}
        self.program = tiny.program
        self.lanes = ManualLanes()
        store = Store(root, owner=name)
        if is_stocked:
            for content_hash, content in {**tiny.graphs, **tiny.blobs}.items():
                store.put(content_hash, bytes(content))
        self.runtime = Runtime(
            Prepare(EPOCH, tiny.program, "leader"),
            WorkerResources(
                fabric.endpoint(name),
                self.lanes,
                store,
                engine or OrtEngine(1),
                slow_down or Slowdown(),
            ),
        )

    def load(self) -> None:
        """Load all fragments, or as far as that goes."""
        self.runtime.begin()
        while loading := [t for t in threading.enumerate() if t.name.endswith("/load")]:
            loading[0].join(10)

    def take(self, stream: Stream, array: Array, request: int = 0, /, **changes: object) -> None:
        """Hand the runtime one piece, with changes to its header."""
        facts: dict[str, object] = {
            "epoch": EPOCH,
            "request": request,
            "route": (),
            "stream": stream.id,
            "digest": digest_stream(stream),
            "payload_bytes": array.nbytes,
        }
        source = str(changes.pop("source", stream.source))
        header = PieceHeader(**{**facts, **changes})  # type: ignore[arg-type]
        self.runtime.take_piece(source, header, memoryview(array.tobytes()))

    def feed(self, array: Array, request: int = 0) -> None:
        """Hand the runtime the only input of a request."""
        self.take(feed_streams(self.program, "leader")[0], array, request)


class FaultyEngine:
    """An engine whose fragments fail, or give something else than the program says.

    Args:
        answer: What a run raises or returns.
    """

    inputs = (TensorSpec("i0", (4,), "float32"),)
    outputs = (TensorSpec("o0", (4,), "float32"),)
    providers = ("faulty",)

    def __init__(self, answer: Exception | Array) -> None:
        self.answer = answer

    def load(
        self, graph: bytes, blobs: Mapping[str, Blob], *, prepack: bool = True
    ) -> FaultyEngine:
        """The engine itself is the runner of all fragments."""
        return self

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The answer, or its error."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer]


def with_wire(tiny: Tiny, wire: str) -> Tiny:
    """The program with all its streams in another wire format."""
    streams = tuple(
        msgspec.structs.replace(
            stream, wire=wire, wire_bytes=wire_bytes(stream.box.shape, stream.dtype, wire)
        )
        for stream in tiny.program.streams
    )
    return Tiny(msgspec.structs.replace(tiny.program, streams=streams), tiny.graphs, tiny.blobs)


def ramp(rows: int = 4) -> Array:
    """The input 1, 2, 3 and so on."""
    return np.arange(1, rows + 1, dtype=np.float32)
