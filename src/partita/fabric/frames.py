"""Headers of pieces, control notes, and the gate that lets only well-formed pieces through."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated

import msgspec

from partita.errors import RunError
from partita.program import Stream
from partita.regions import fits, most_bytes

MAX_HEADER_BYTES = 16 * 1024
#: The first byte of frames that say when they are due, as on an emulated link; others have another.
STAMP_MARK = 1
_DIGEST_BYTES = 8
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class PieceHeader(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="piece"
):
    """Which piece of which request a payload is.

    Attributes:
        epoch: Deployment that the piece belongs to; others' pieces are rejected.
        route: The request's chosen alternative per route group.
        digest: :func:`digest_stream` of the sender's stream.
        payload_bytes: Length of the payload, which must fit.
    """

    epoch: Count
    request: Count
    route: tuple[Count, ...]
    stream: Count
    digest: bytes
    payload_bytes: Count


class Credit(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="credit"
):
    """Note to a sender: one more piece of a stream may come."""

    epoch: Count
    stream: Count


class Failure(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="failure"
):
    """Note to the leader: a step could not finish.

    Attributes:
        peer: The device that could not be reached; empty where the fault is another.
    """

    epoch: Count
    device: str
    step: str
    request: int
    message: str
    peer: str = ""


class Beat(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="beat"):
    """Note to the leader: the worker's own loop still turns; ``finished`` counts its steps."""

    epoch: Count
    finished: Count


Note = Credit | Failure | Beat

_encoder = msgspec.msgpack.Encoder()
_piece_decoder = msgspec.msgpack.Decoder(PieceHeader)
_note_decoder: msgspec.msgpack.Decoder[Note] = msgspec.msgpack.Decoder(Note)


def digest_stream(stream: Stream) -> bytes:
    """8 bytes that change with the stream's tensor, box, type, wire format or ends."""
    facts = (stream.tensor, stream.box, stream.dtype, stream.wire, stream.wire_bytes, stream.grid)
    ends = (stream.source, stream.target)
    return hashlib.blake2b(_encoder.encode((facts, ends)), digest_size=_DIGEST_BYTES).digest()


def encode_header(header: PieceHeader) -> bytes:
    """The bytes of a piece's header."""
    return _encoder.encode(header)


def encode_note(note: Note) -> bytes:
    """The bytes of a control note."""
    return _encoder.encode(note)


def decode_note(source: str, body: bytes) -> Note:
    """The control note in ``body``.

    Raises:
        RunError: The bytes are no note of a known kind.
    """
    _refuse_stamped(source, body)
    try:
        return _note_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _rejected(source, f"note of {len(body)} bytes: {error}") from None


def decode_header(source: str, header: bytes) -> PieceHeader:
    """The header in ``header``.

    Raises:
        RunError: The bytes are too many, or no header of a piece.
    """
    if len(header) > MAX_HEADER_BYTES:
        raise _rejected(source, f"header has {len(header)} bytes, at most {MAX_HEADER_BYTES}")
    _refuse_stamped(source, header)
    try:
        return _piece_decoder.decode(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _rejected(source, f"header of {len(header)} bytes: {error}") from None


def is_stamped(frame: bytes) -> bool:
    """Whether a frame says when it is due; frames of endpoints that shape nothing do not."""
    return frame[:1] == bytes((STAMP_MARK,))


def _refuse_stamped(source: str, frame: bytes) -> None:
    if is_stamped(frame):
        reason = "it comes over an emulated link, and this worker is none of that lab"
        raise _rejected(source, f"{reason}: partita lab --restart starts its own workers again")


def _rejected(source: str, reason: str) -> RunError:
    return RunError(f"Frame from {source!r} rejected: {reason}.", device=source)


class PieceGate:
    """Checks each arriving frame against the streams of one deployment.

    Args:
        device: The receiving device; streams to others are rejected.
    """

    def __init__(self, epoch: int, device: str, streams: Iterable[Stream]) -> None:
        self._epoch = epoch
        self._expected = {s.id: (s, digest_stream(s)) for s in streams if s.target == device}

    def check(self, source: str, header: PieceHeader, payload: memoryview) -> None:
        """Check a piece against its stream.

        Raises:
            RunError: It is cut short, lies about its length, or belongs to another deployment or
                stream; the message says which.
        """
        number = header.stream
        if header.epoch != self._epoch:
            raise _rejected(source, f"epoch {header.epoch}, this deployment is {self._epoch}")
        if number not in self._expected:
            raise _rejected(source, f"stream {number} does not end here")
        stream, digest = self._expected[number]
        if stream.source != source:
            raise _rejected(source, f"stream {number} comes from {stream.source!r}")
        if header.digest != digest:
            raise _rejected(source, f"stream {number} has another shape, type or format")
        facts = stream.box.shape, stream.dtype, stream.wire
        if len(payload) != header.payload_bytes or not fits(len(payload), *facts):
            raise _rejected(
                source,
                f"stream {number} has {len(payload)} payload bytes, header says "
                f"{header.payload_bytes}, {most_bytes(*facts)} needed",
            )
