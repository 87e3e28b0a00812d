"""The control messages of leader and workers: typed MessagePack, never pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from partita.engine.timing import MachineTimes, TimingOrder, Timings
from partita.errors import RunError
from partita.program import Program, Stream, TensorSpec
from partita.regions import COMPRESSED, Region, wire_bytes
from partita.worker.decoders import T, find_decoder

#: Raised whenever a message, a step or the wire changes its meaning; not for more, with defaults.
PROTOCOL_VERSION = 9

#: Content travels in chunks of so much: 80 ms of a 100 Mbit/s link, for other calls between two.
CHUNK_BYTES = 2**20

#: Eight times the largest message of a profile, and a hundred times as many of them.
MAX_PROBE_BYTES, MAX_REPEATS = 2**26, 1000
#: Workers that one sends to at the same time while it is timed, each from a thread of its own.
MAX_FLOWS = 8

#: Stream ids of inputs and outputs between leader and requester: beyond those of any program.
FIRST_FEED, FIRST_ANSWER = 2**40, 2**41


class Hello(msgspec.Struct, frozen=True):
    """Greeting of a leader."""

    version: str
    protocol: int


class Disk(msgspec.Struct, frozen=True):
    """What a store holds, may hold at most, and what its disk has left."""

    used_bytes: int = 0
    quota_bytes: int = 0
    free_bytes: int = 0


class Info(msgspec.Struct, frozen=True):
    """Answer to :class:`Hello`: the worker's machine, versions and limits.

    Attributes:
        memory_limit_bytes: See :class:`~partita.worker.memory_limit.MemoryLimit`.
        fallback: Which provider computes instead of a missing one; empty when none is missing.
        slow_down: Factor by which the worker pretends to be slower; 1 on a real device.
        paced: Whether sending takes as long as the link does; else a send only fills a buffer.
        host: The same for workers of one machine.
        formats: Wire formats that the worker has; pictures take a library.
        disk: Its store.
    """

    name: str
    version: str
    protocol: int
    cpus: int
    memory_bytes: int
    memory_limit_bytes: int
    threads: int
    providers: tuple[str, ...]
    fallback: str
    slow_down: float
    paced: bool = False
    host: str = ""
    formats: tuple[str, ...] = ()
    disk: Disk = Disk()


class Have(msgspec.Struct, frozen=True):
    """Which of ``hashes`` are missing? They stay in the store until ``epoch`` is prepared.

    A leader that sends none of them and does not prepare either loses its claim after a lease.

    Attributes:
        spare_of: The leader for which they stand by, until it leaves or retires the epoch, in room
            that no other plan needs; empty where the epoch is to be prepared next.
    """

    epoch: int
    hashes: tuple[str, ...]
    spare_of: str = ""


class Missing(msgspec.Struct, frozen=True):
    """Answer to :class:`Have`."""

    hashes: tuple[str, ...]


class Put(msgspec.Struct, frozen=True):
    """One chunk of a fragment or of weights."""

    hash: str
    offset: int
    size_bytes: int
    data: bytes


class Prepare(msgspec.Struct, frozen=True):
    """Begin to load the device's part of a program under an epoch.

    Attributes:
        program: The program with only this device's steps in it.
        leader: Endpoint that gets answers and failures.
        trace: Whether to keep what each lane did when.
        prepack: Whether fragments are loaded to run fast rather than to be ready soon.
    """

    epoch: int
    program: Program
    leader: str
    trace: bool = True
    prepack: bool = True


class OfEpoch(msgspec.Struct, frozen=True):
    """Anything that is said about one epoch and needs no more."""

    epoch: int


class Drain(msgspec.Struct, frozen=True):
    """To a leader: go on without a device, which is there, but is to be free."""

    device: str


class Calibrate(msgspec.Struct, frozen=True):
    """Time every step of an epoch alone, ``repeats`` times.

    Attributes:
        reference_s: What the reference took when the machine was profiled; 0 where it was not.
    """

    epoch: int
    repeats: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPEATS)]
    reference_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class Progress(msgspec.Struct, frozen=True):
    """How far a worker is with what it was asked to do for an epoch.

    Attributes:
        busy: Whether a job is under way.
        done: Steps loaded or timed so far, out of ``total``.
        error, peer: Why the job failed, and what could not be reached, if that is why; else empty.
    """

    busy: bool
    done: int
    total: int
    error: str = ""
    peer: str = ""


class WorkerSpan(msgspec.Struct, frozen=True, array_like=True):
    """A span on the worker's own monotonic clock."""

    lane: str
    step: int
    request: int
    start_s: float
    end_s: float


class SpansFrom(msgspec.Struct, frozen=True):
    """Which spans of an epoch to send: from index ``first`` on, at most ``count``."""

    epoch: int
    first: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
    count: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class WorkerSpans(msgspec.Struct, frozen=True):
    """Answer to :class:`SpansFrom`; empty when there are no more."""

    marks: tuple[WorkerSpan, ...]


class SendTotals(msgspec.Struct, frozen=True):
    """The totals of one sending lane since the epoch began.

    Attributes:
        bytes: Payload.
        busy_s: All of the lane's time, encoding included.
        wire_s: Seconds within sends: on paced links, message cost and serialisation.
    """

    target: str
    bytes: int
    busy_s: float
    messages: int = 0
    wire_s: float = 0.0


class ComputeTotals(msgspec.Struct, frozen=True, array_like=True):
    """The number of runs of a ``Compute`` step, their seconds in all, and quantiles of them."""

    step: int
    count: int
    busy_s: float
    p50_s: float = 0.0
    p90_s: float = 0.0
    p99_s: float = 0.0


class LaneQueue(msgspec.Struct, frozen=True, array_like=True):
    """What steps found before them on a lane; see :class:`partita.execution.QueueUse`."""

    lane: str
    found: tuple[int, ...]


class Waiting(msgspec.Struct, frozen=True):
    """A step that is not done, and why."""

    step: int
    request: int
    label: str
    reason: str


class Stats(msgspec.Struct, frozen=True):
    """The totals of an epoch on a device so far.

    Attributes:
        busy_s: Busy seconds of the compute lane.
        peak_piece_bytes: Most bytes of pieces at one time, weights not counted.
        dropped: Frames that came twice or for an epoch that is over.
        overruns: Work that took longer than its emulated time; then the emulation is not true.
        worked: Per ``Compute`` step that ran.
        queues: Per lane.
        resident_bytes: What the process holds privately beyond an idle worker, other epochs
            included; 0 where the system does not say.
    """

    busy_s: float
    weight_bytes: int
    piece_bytes: int
    peak_piece_bytes: int
    sent: tuple[SendTotals, ...]
    dropped: int
    overruns: int
    waiting: tuple[Waiting, ...]
    worked: tuple[ComputeTotals, ...] = ()
    queues: tuple[LaneQueue, ...] = ()
    resident_bytes: int = 0


class MessageFlow(msgspec.Struct, frozen=True):
    """``repeats`` messages of a size to another worker, one after the other."""

    target: str
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=MAX_PROBE_BYTES)]
    repeats: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPEATS)]


class TimeMessages(msgspec.Struct, frozen=True):
    """Send flows of messages, all at the same time, and time each message."""

    flows: Annotated[tuple[MessageFlow, ...], msgspec.Meta(min_length=1, max_length=MAX_FLOWS)]


class MessageTimes(msgspec.Struct, frozen=True):
    """Answer to :class:`TimeMessages`: per flow, seconds until the news of each arrival."""

    seconds: tuple[tuple[float, ...], ...]


class Measure(msgspec.Struct, frozen=True):
    """Time fragments whose content is there under an epoch, or what is no fragment.

    Attributes:
        order: The fragments; None for the machine itself.
    """

    epoch: int
    order: TimingOrder | None = None


class Measured(msgspec.Struct, frozen=True):
    """What came out of :class:`Measure`.

    Attributes:
        busy: Whether it is under way.
        error: Why it failed; empty while it did not.
    """

    busy: bool
    error: str = ""
    timings: Timings | None = None
    facts: MachineTimes | None = None


class BeginTraces(msgspec.Struct, frozen=True):
    """Let the traces of emulated links begin at a time of the host's monotonic clock."""

    at_s: float


class Clock(msgspec.Struct, frozen=True):
    """A worker's monotonic clock, for estimating its offset.

    Attributes:
        origin: Equal for processes whose clocks are one; empty where nobody knows.
        time_of_day_s: For people, who see by it which machines' clocks are wrong.
    """

    now_s: float
    origin: str = ""
    time_of_day_s: float = 0.0


_encode = msgspec.msgpack.Encoder().encode


def encode_message(message: msgspec.Struct) -> bytes:
    """The MessagePack bytes of ``message``."""
    return _encode(message)


def decode_message(body: bytes, kind: type[T]) -> T:
    """The message of type ``kind`` in ``body``.

    Raises:
        RunError: The bytes are no such message.
    """
    try:
        return find_decoder(kind).decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RunError(
            f"Message {kind.__name__} of {len(body)} bytes is malformed: {error}. "
            "Install the same version on leader and worker."
        ) from None


def feed_streams(program: Program, leader: str) -> tuple[Stream, ...]:
    """The streams on which ``leader`` hands the model's inputs to the requester."""
    return tuple(
        _edge_stream(FIRST_FEED + index, tensor, leader, program.requester)
        for index, tensor in enumerate(program.inputs)
    )


def answer_streams(program: Program, leader: str) -> tuple[Stream, ...]:
    """The streams on which the requester hands the model's outputs to ``leader``."""
    return tuple(
        _edge_stream(FIRST_ANSWER + index, tensor, program.requester, leader)
        for index, tensor in enumerate(program.outputs)
    )


def check_formats(program: Program, infos: Mapping[str, Info]) -> None:
    """Compare the formats that compress, among those of a program's streams, with workers' own.

    Raises:
        RunError: A worker has not the library for one.
    """
    for stream in program.streams:
        name = stream.wire.partition("@")[0].rpartition("+")[2]
        for device in (stream.source, stream.target):
            known = infos[device].formats
            if name in COMPRESSED and name not in known:
                raise RunError(
                    f"Worker {device!r} has not the format {name} of tensor {stream.tensor!r}, it"
                    f" has {', '.join(known)}. Install Pillow there, or plan with another format.",
                    device=device,
                )


def _edge_stream(number: int, tensor: TensorSpec, source: str, target: str) -> Stream:
    box = Region.full(tensor.shape)
    nbytes = wire_bytes(tensor.shape, tensor.dtype, "raw")
    return Stream(number, tensor.name, box, tensor.dtype, source, target, "raw", nbytes, 1)


def check_version(mine: tuple[str, int], theirs: tuple[str, int], worker: str) -> None:
    """Compare versions of the leader and of a worker: those of one protocol work together.

    Args:
        mine: Package and protocol version of the leader.
        theirs: The same of the worker.
        worker: The worker's name.

    Raises:
        RunError: Their protocols differ.
    """
    if mine[1] != theirs[1]:
        raise RunError(
            f"Worker {worker!r} is of another version than the leader: it runs partita "
            f"{theirs[0]} (protocol {theirs[1]}), the leader {mine[0]} (protocol {mine[1]}). "
            "Install versions of one protocol on both.",
            device=worker,
        )
