"""What each kind of step does with the pieces in memory. Decides nothing: the machine does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from partita.engine import Array, Runner, Slowdown
from partita.execution.pieces import Codec, Gather, plan_codec, plan_gather
from partita.fabric import Endpoint, PieceHeader, digest_stream, encode_piece
from partita.program import Buffer, Compute, Deliver, Receive, Send, Step, Stream
from partita.worker.buffers import BufferTable, StepLog, Written

Route = tuple[int, ...]


class StepRunner(Protocol):
    """One step of a program, ready to be done for any request.

    Attributes:
        step: The step's id.
        lane: Where it runs.
        label: For people.
        is_instant: Whether it takes so little that a change of thread would take longer.
    """

    step: int
    lane: str
    label: str
    is_instant: bool

    def do(self, request: int, route: Route) -> tuple[Written, ...]:
        """Do the step for a request and return what it wrote."""


@dataclass
class StepPacing:
    """Makes encoding and decoding take as long as on the emulated device.

    Attributes:
        slow_down: The device's slow-down, shared with its engine.
        alone_s: Seconds per step, as timed alone; steps that are absent are not stretched.
    """

    slow_down: Slowdown = field(default_factory=Slowdown)
    alone_s: dict[int, float] = field(default_factory=dict)

    def finish(self, step: int, start_s: float) -> None:
        """Wait until a step that began at ``start_s`` has taken its emulated time."""
        alone_s = self.alone_s.get(step)
        if alone_s is not None:
            self.slow_down.finish(start_s, alone_s)


@dataclass(frozen=True)
class StepContext:
    """What the steps of one epoch work with.

    Attributes:
        streams: All streams of the device, by id.
        answers: Streams of the model's outputs to the leader, in order.
    """

    epoch: int
    endpoint: Endpoint
    pieces: BufferTable
    book: StepLog
    stretch: StepPacing
    buffers: Mapping[int, Buffer]
    streams: Mapping[int, Stream]
    answers: tuple[Stream, ...]
    runners: dict[int, Runner]


class ComputeWork:
    """Assembles the arguments, runs the fragment, checks what came out."""

    lane = "compute"
    is_instant = False

    def __init__(self, step: Compute, site: StepContext) -> None:
        self.step = step.id
        self.label = step.label
        self.fragment = step.fragment
        self.gathers = tuple(plan_gather(read, site.buffers) for read in step.reads)
        buffers = [site.buffers[number] for number in step.writes]
        self.writes = tuple((buffer, buffer.box.shape) for buffer in buffers)
        self._site = site

    def do(self, request: int, route: Route) -> tuple[Written, ...]:
        """Run the fragment for a request."""
        held = self._site.pieces.of(request) if self.gathers else {}
        arguments = [gather.collect(held) for gather in self.gathers]
        outputs = self._site.runners[self.fragment].run(arguments)
        return tuple(_checked(*b, o) for b, o in zip(self.writes, outputs, strict=True))


def _checked(buffer: Buffer, shape: tuple[int, ...], array: Array) -> Written:
    if array.shape != shape or array.dtype != buffer.dtype:
        raise ValueError(
            f"{buffer.tensor} came out as {array.dtype.name}{list(array.shape)}, "
            f"the program says {buffer.dtype}{list(shape)}"
        )
    return buffer.id, array


class ReceiveWork:
    """Decodes a payload that has arrived."""

    lane = "receive"

    def __init__(self, step: Receive, site: StepContext) -> None:
        stream = site.streams[step.stream]
        self.step = step.id
        self.label = f"receive {stream.tensor} from {stream.source}"
        self.codec = plan_codec(stream)
        # Raw payloads are viewed where they lie.
        self.is_instant = stream.wire == "raw"
        self._write = step.write
        self._stream = step.stream
        self._site = site

    def do(self, request: int, route: Route) -> tuple[Written, ...]:
        """Decode the request's piece."""
        start_s = time.monotonic()
        array = self.codec.decode(self._site.pieces.take(self._stream, request))
        self._site.stretch.finish(self.step, start_s)
        return ((self._write, array),)


class SendWork:
    """Encodes a piece and hands it to the link."""

    is_instant = False

    def __init__(self, step: Send, site: StepContext) -> None:
        stream = site.streams[step.stream]
        self.step = step.id
        self.lane = f"send:{stream.target}"
        self.label = f"send {stream.tensor} to {stream.target}"
        self.codec = plan_codec(stream, site.buffers[step.read].box)
        self.read = step.read
        self._out = StreamSender(stream, site)
        self._site = site

    def do(self, request: int, route: Route) -> tuple[Written, ...]:
        """Send the request's piece."""
        start_s = time.monotonic()
        payload = self.codec.encode(self._site.pieces.of(request)[self.read])
        self._site.stretch.finish(self.step, start_s)
        self._out.send(request, route, payload)
        return ()


class DeliverWork:
    """Assembles the model's outputs and hands them to the leader."""

    lane = "deliver"
    label = "deliver the outputs"
    is_instant = False

    def __init__(self, step: Deliver, site: StepContext) -> None:
        self.step = step.id
        self._gathers: tuple[Gather, ...] = tuple(
            plan_gather(read, site.buffers) for read in step.reads
        )
        self._codecs: tuple[Codec, ...] = tuple(plan_codec(stream) for stream in site.answers)
        self._outs = tuple(StreamSender(stream, site) for stream in site.answers)
        self._site = site

    def do(self, request: int, route: Route) -> tuple[Written, ...]:
        """Answer the request."""
        held = self._site.pieces.of(request)
        for gather, codec, out in zip(self._gathers, self._codecs, self._outs, strict=True):
            out.send(request, route, codec.encode(gather.collect(held)))
        return ()


class StreamSender:
    """Puts headers on the payloads of one stream."""

    def __init__(self, stream: Stream, site: StepContext) -> None:
        self._stream = stream
        self._digest = digest_stream(stream)
        self._site = site

    def send(self, request: int, route: Route, payload: bytes | memoryview) -> None:
        """Send one request's piece, in fragments of the fabric's size."""
        stream, site = self._stream, self._site
        nbytes = len(payload)
        piece = PieceHeader(site.epoch, request, route, stream.id, self._digest, nbytes)
        start_s = time.monotonic()
        site.endpoint.send(stream.target, encode_piece(piece), payload)
        site.book.add_sent(stream.target, nbytes, time.monotonic() - start_s)


def make_work(step: Step, site: StepContext) -> StepRunner | None:
    """Return how ``step`` is done, or None for steps that are events only (loads and feeds)."""
    if isinstance(step, Compute):
        return ComputeWork(step, site)
    if isinstance(step, Receive):
        return ReceiveWork(step, site)
    if isinstance(step, Send):
        return SendWork(step, site)
    return DeliverWork(step, site) if isinstance(step, Deliver) else None
