"""How each kind of step is run; when it is run, the state machine decides."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from partita.engine import Runner, Slowdown
from partita.errors import LinkError
from partita.execution.pieces import Codec, Gather, plan_codec, plan_gather
from partita.fabric import Endpoint, PieceHeader, digest_stream, encode_header
from partita.program import Buffer, Compute, Deliver, Receive, Send, Step, Stream
from partita.regions import Array
from partita.worker.buffers import BufferTable, StepLog, Written
from partita.worker.port_turns import PortTurns

Route = tuple[int, ...]


class StepRunner(Protocol):
    """One step of a program, ready to run for any request.

    Attributes:
        lane: Name of the lane that it occupies.
        label: Name in messages.
        is_instant: Whether it is shorter than a context switch: then it runs where it is started.
    """

    step: int
    lane: str
    label: str
    is_instant: bool

    def run(self, request: int, route: Route) -> tuple[Written, ...]:
        """The arrays that the step writes for a request; called once per request."""


@dataclass
class StepPacing:
    """The pace of encoding and decoding on an emulated device.

    Attributes:
        alone_s: Seconds per step, as calibrated alone; steps that are absent are not slowed.
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
    """The state that all steps of one epoch share.

    Attributes:
        arrays: The arrays of requests under way.
        buffers: Boxes and types of the device's buffers, by id.
        streams: All streams of the device, by id.
        answers: Streams of the model's outputs to the leader, in order.
        runners: Loaded fragments, by index in the program.
        port_turns, port_bytes_per_s: Where the device has a port that nothing emulates.
    """

    epoch: int
    endpoint: Endpoint
    arrays: BufferTable
    log: StepLog
    pacing: StepPacing
    buffers: Mapping[int, Buffer]
    streams: Mapping[int, Stream]
    answers: tuple[Stream, ...]
    runners: dict[int, Runner]
    port_turns: PortTurns | None = None
    port_bytes_per_s: float | None = None


class ComputeRunner:
    """Assembles the arguments, runs the fragment, checks what came out."""

    lane = "compute"
    is_instant = False

    def __init__(self, step: Compute, context: StepContext) -> None:
        self.step = step.id
        self.label = step.label
        self._fragment = step.fragment
        self._gathers = tuple(plan_gather(read, context.buffers) for read in step.reads)
        buffers = [context.buffers[number] for number in step.writes]
        self._writes = tuple((buffer, buffer.box.shape) for buffer in buffers)
        self._context = context

    def run(self, request: int, route: Route) -> tuple[Written, ...]:
        """Run the fragment for a request."""
        held = self._context.arrays.of(request) if self._gathers else {}
        arguments = [gather.collect(held) for gather in self._gathers]
        outputs = self._context.runners[self._fragment].run(arguments)
        return tuple(_check(*write, out) for write, out in zip(self._writes, outputs, strict=True))


def _check(buffer: Buffer, shape: tuple[int, ...], array: Array) -> Written:
    if array.shape != shape or array.dtype != buffer.dtype:
        raise ValueError(
            f"{buffer.tensor} came out as {array.dtype.name}{list(array.shape)}, "
            f"the program says {buffer.dtype}{list(shape)}"
        )
    return buffer.id, array


class ReceiveRunner:
    """Decodes a payload that has arrived."""

    lane = "receive"

    def __init__(self, step: Receive, context: StepContext) -> None:
        stream = context.streams[step.stream]
        self.step = step.id
        self.label = f"receive {stream.tensor} from {stream.source}"
        self.codec = plan_codec(stream)
        # Raw payloads are viewed in place: no copy, no work.
        self.is_instant = stream.wire == "raw"
        self._write = step.write
        self._stream = step.stream
        self._source = stream.source
        self._context = context

    def run(self, request: int, route: Route) -> tuple[Written, ...]:
        """Decode the payload of a request.

        Raises:
            LinkError: It was damaged on the way.
        """
        start_s = time.monotonic()
        try:
            array = self.codec.decode(self._context.arrays.take(self._stream, request))
        except ValueError as error:
            # Transports have checksums of their own: what passed them is no chance of one message.
            raise LinkError(str(error), device=self._source) from None
        self._context.pacing.finish(self.step, start_s)
        return ((self._write, array),)


class SendRunner:
    """Encodes a piece and hands it to the link."""

    is_instant = False

    def __init__(self, step: Send, context: StepContext) -> None:
        stream = context.streams[step.stream]
        self.step = step.id
        self.lane = f"send:{stream.target}"
        self.label = f"send {stream.tensor} to {stream.target}"
        self.codec = plan_codec(stream, context.buffers[step.read].box)
        self.read = step.read
        self._sender = StreamSender(stream, context)
        self._size_bytes = stream.wire_bytes
        self._turns_s: dict[int, float] = {}
        self._context = context

    def take_turn(self, request: int) -> None:
        """Take the request's turn at the port, in the order in which steps are started.

        Lanes are threads: which of two comes first is chance.
        """
        turns, rate = self._context.port_turns, self._context.port_bytes_per_s
        if turns is not None and rate is not None:
            self._turns_s[request] = turns.reserve(self._size_bytes, rate)

    def run(self, request: int, route: Route) -> tuple[Written, ...]:
        """Send the request's piece."""
        start_s = time.monotonic()
        payload = self.codec.encode(self._context.arrays.of(request)[self.read])
        self._context.pacing.finish(self.step, start_s)
        turns, turn_s = self._context.port_turns, self._turns_s.pop(request, None)
        if turns is not None and turn_s is not None:
            turns.wait_until(turn_s)
        self._sender.send(request, route, payload)
        return ()


class DeliverRunner:
    """Assembles the model's outputs and sends them to the leader."""

    lane = "deliver"
    label = "deliver the outputs"
    is_instant = False

    def __init__(self, step: Deliver, context: StepContext) -> None:
        self.step = step.id
        self._gathers: tuple[Gather, ...] = tuple(
            plan_gather(read, context.buffers) for read in step.reads
        )
        self._codecs: tuple[Codec, ...] = tuple(plan_codec(stream) for stream in context.answers)
        self._senders = tuple(StreamSender(stream, context) for stream in context.answers)
        self._context = context

    def run(self, request: int, route: Route) -> tuple[Written, ...]:
        """Send the request's outputs to the leader."""
        held = self._context.arrays.of(request)
        for gather, codec, sender in zip(self._gathers, self._codecs, self._senders, strict=True):
            sender.send(request, route, codec.encode(gather.collect(held)))
        return ()


class StreamSender:
    """Puts headers on the payloads of one stream."""

    def __init__(self, stream: Stream, context: StepContext) -> None:
        self._stream = stream
        self._digest = digest_stream(stream)
        self._context = context

    def send(self, request: int, route: Route, payload: bytes | memoryview) -> None:
        """Send one request's piece; blocks while the link is full."""
        stream, context = self._stream, self._context
        nbytes = len(payload)
        header = PieceHeader(context.epoch, request, route, stream.id, self._digest, nbytes)
        start_s = time.monotonic()
        context.endpoint.send(stream.target, encode_header(header), payload)
        context.log.add_sent(stream.target, nbytes, time.monotonic() - start_s)


def make_step_runner(step: Step, context: StepContext) -> StepRunner | None:
    """The runner of ``step``; None for loads and feeds, which are only events here."""
    if isinstance(step, Compute):
        return ComputeRunner(step, context)
    if isinstance(step, Receive):
        return ReceiveRunner(step, context)
    if isinstance(step, Send):
        return SendRunner(step, context)
    return DeliverRunner(step, context) if isinstance(step, Deliver) else None
