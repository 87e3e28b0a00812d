"""Numbered, acknowledged messages over a transport that may lose them: no I/O, only decisions.

A **flow** is all that one endpoint sends to one other. The receiver takes messages in order only;
after a gap it asks for the rest again, so nothing is reordered, doubled or kept out of order.

By hand, since Zenoh's reliability ends with its connection: a put without a subscriber or while a
link is down is lost without an error, and by default 14 of 200 messages reached a slow reader.
"""

from __future__ import annotations

import secrets
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from partita.fabric.base import Payload
from partita.fabric.checksum import compute_checksum

MAX_PIECE_BYTES = 2**30
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The header of each chunk; who sends it is in its key.

    Attributes:
        flow: :func:`new_flow`; one that was not heard of before replaces the one of now.
        sequence: Number of the message in the flow.
        size_bytes: Payload of the whole message.
        header: The piece's header, with the first chunk only.
    """

    flow: Number
    sequence: Number
    chunk: Number
    chunks: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=MAX_PIECE_BYTES)]
    header: bytes


def new_flow() -> int:
    """A number for a flow, drawn: neither restarts nor clocks that go back give one again."""
    return secrets.randbits(62)


class Ack(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="ack"):
    """A receiver's state: all messages below ``expected``, and ``chunks`` chunks in all."""

    flow: Number
    expected: Number
    chunks: Number
    has_gap: bool


class AckRequest(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="probe"
):
    """A sender's request for an acknowledgement."""

    flow: Number


class Ping(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="ping"):
    """A request for a sign of life of the other process's own loop."""


class Pong(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="pong"):
    """The answer to a ping."""


class Flush(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="flush"):
    """Nothing: what was written before it is pushed out."""


Signal = Ack | AckRequest | Ping | Pong | Flush
#: The attachment of a sample that is a :class:`Flush`; no envelope begins like it.
FLUSH_MARK = b"flush"


@dataclass
class UnackedMessage:
    """A message that may have to be sent again."""

    sequence: int
    header: bytes
    payload: Payload


@dataclass
class Outflow:
    """The sender's side of a flow; times in seconds on the caller's clock."""

    flow: int
    next_sequence: int = 0
    unacked: deque[UnackedMessage] = field(default_factory=deque)
    unacked_bytes: int = 0
    progress: tuple[int, int] = (0, 0)
    progress_s: float = 0.0
    resends: int = 0

    def stage(self, header: bytes, payload: Payload, now_s: float) -> UnackedMessage:
        """The next message, kept until it is acknowledged."""
        if not self.unacked:
            self.progress_s = now_s
        message = UnackedMessage(self.next_sequence, header, payload)
        self.next_sequence += 1
        self.unacked.append(message)
        self.unacked_bytes += len(payload)
        return message

    def acknowledge(self, ack: Ack, now_s: float) -> bool:
        """Drop what has arrived; return whether the rest must be sent again at once."""
        if ack.flow != self.flow:
            return False
        while self.unacked and self.unacked[0].sequence < ack.expected:
            self.unacked_bytes -= len(self.unacked.popleft().payload)
        if (ack.expected, ack.chunks) > self.progress:
            self.progress = (ack.expected, ack.chunks)
            self.progress_s = now_s
            self.resends = 0
        return ack.has_gap and bool(self.unacked)

    def stalled_s(self, now_s: float) -> float:
        """For how long something has been unacknowledged without any progress."""
        return now_s - self.progress_s if self.unacked else 0.0


def cut_chunks(
    flow: int, message: UnackedMessage, chunk_bytes: int
) -> Iterator[tuple[Envelope, int]]:
    """Yield each chunk of a message: its envelope and where its payload begins."""
    size = len(message.payload)
    chunks = max(1, -(-size // chunk_bytes))
    for chunk in range(chunks):
        header = message.header if chunk == 0 else b""
        envelope = Envelope(flow, message.sequence, chunk, chunks, size, header)
        yield envelope, chunk * chunk_bytes


class DamagedError(ValueError):
    """A chunk is not what its sender sent."""


def write_envelope(envelope: Envelope, data: Payload) -> bytes:
    """What travels beside a chunk: a checksum of both, and its envelope."""
    encoded = _encoder.encode(envelope)
    return _CHECKSUM.pack(compute_checksum(data, encoded)) + encoded


_CHECKSUM = struct.Struct("<Q")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)


def read_envelope(attachment: bytes, data: Payload) -> Envelope:
    """The envelope in ``attachment``, which came with the chunk ``data``.

    Raises:
        DamagedError: They are not what was sent, as far as the checksum says.
        ValueError: The bytes are no envelope.
    """
    encoded = attachment[_CHECKSUM.size :]
    if attachment[: _CHECKSUM.size] != _CHECKSUM.pack(compute_checksum(data, encoded)):
        raise DamagedError("its checksum does not fit")
    return _decoder.decode(encoded)


@dataclass
class Inflow:
    """The receiver's side of a flow; ``taken`` is when its last chunk came, in any order."""

    flow: int
    expected: int = 0
    chunks: int = 0
    has_gap: bool = False
    parts: list[bytes | memoryview] = field(default_factory=list)
    part_bytes: int = 0
    header: bytes = b""
    taken: int = 0

    def take(self, envelope: Envelope, data: bytes | memoryview) -> tuple[bytes, memoryview] | None:
        """Header and payload when ``envelope`` completes the message that is due.

        Raises:
            ValueError: The chunk contradicts its message; it is dropped.
        """
        if envelope.sequence < self.expected:
            return None
        if envelope.sequence > self.expected or envelope.chunk > len(self.parts):
            self.has_gap = True
            return None
        if envelope.chunk < len(self.parts):
            if envelope.chunk > 0:
                return None
            self.restart()
        self._check(envelope, data)
        return self._add(envelope, data)

    def _check(self, envelope: Envelope, data: bytes | memoryview) -> None:
        total = self.part_bytes + len(data)
        is_last = envelope.chunk == envelope.chunks - 1
        if total > envelope.size_bytes or (is_last and total != envelope.size_bytes):
            self.restart()
            raise ValueError(
                f"message {envelope.sequence} has {total} bytes, its header says "
                f"{envelope.size_bytes}"
            )
        if envelope.chunk >= envelope.chunks:
            raise ValueError(f"chunk {envelope.chunk} of {envelope.chunks}")

    def _add(self, envelope: Envelope, data: bytes | memoryview) -> tuple[bytes, memoryview] | None:
        if envelope.chunk == 0:
            self.header = envelope.header
        self.has_gap = False
        self.chunks += 1
        self.parts.append(data)
        self.part_bytes += len(data)
        if len(self.parts) < envelope.chunks:
            return None
        whole = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        header = self.header
        self.expected += 1
        self.restart()
        return header, memoryview(whole)

    def restart(self) -> None:
        """Drop the chunks of the message that is due; it begins anew."""
        self.parts = []
        self.part_bytes = 0

    def report(self) -> Ack:
        """The acknowledgement of all that has come."""
        return Ack(self.flow, self.expected, self.chunks, self.has_gap)
