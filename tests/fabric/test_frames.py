"""Headers, notes and digests, byte by byte."""

from __future__ import annotations

import msgspec
import pytest

from partita.errors import RunError
from partita.fabric import (
    Beat,
    Credit,
    Failure,
    Note,
    PieceHeader,
    decode_note,
    digest_stream,
    encode_header,
    encode_note,
)
from partita.fabric.frames import MAX_HEADER_BYTES, decode_header
from partita.program import Stream
from partita.regions import Region

STREAM = Stream(3, "x", Region(((0, 2), (0, 4))), "float32", "a", "b", "raw", 32, 1)
HEADER = PieceHeader(7, 5, (1, 0), 3, digest_stream(STREAM), 32)


@pytest.mark.parametrize(
    "note", [Credit(1, 2), Failure(1, "d0", "make t0", -1, "out of luck"), Beat(1, 0)]
)
def test_notes_survive_the_wire(note: Note) -> None:
    """Each kind is told apart by its tag, although their numbers are the same."""
    assert decode_note("a", encode_note(note)) == note


def test_a_header_survives_the_wire_and_is_short() -> None:
    """It travels with each piece: its cost is that of a few dozen bytes."""
    assert decode_header("a", encode_header(HEADER)) == HEADER
    assert len(encode_header(HEADER)) < 40


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        encode_note(Beat(1, 0))[:-1],
        encode_note(Beat(1, 0)) + b"\x00",
        msgspec.msgpack.encode(["beat", -1, 0]),
        msgspec.msgpack.encode(["beat", 1, 2**62]),
        msgspec.msgpack.encode(["beat", 1, 0, "more"]),
        msgspec.msgpack.encode(["beat", "1", 0]),
        msgspec.msgpack.encode(["dance", 1, 0]),
        msgspec.msgpack.encode(["failure", 1, b"\xff", "s", 0, "m"]),
        b"\x91" * 5000,
    ],
)
def test_what_is_no_note_is_refused_with_its_source(body: bytes) -> None:
    """Cut, extended, of a wrong type, out of range, unknown, nested: an error, never a crash."""
    with pytest.raises(RunError, match=f"Frame from 'a' rejected: note of {len(body)} bytes") as e:
        decode_note("a", body)
    assert e.value.device == "a"


def test_a_note_is_no_header_and_a_header_no_note() -> None:
    """A frame on the wrong plane is refused by its tag."""
    with pytest.raises(RunError, match="header of"):
        decode_header("a", encode_note(Credit(1, 2)))
    with pytest.raises(RunError, match="note of"):
        decode_note("a", encode_header(HEADER))


def test_a_header_beyond_the_limit_is_not_decoded() -> None:
    """A route of thousands of choices is refused by its size, before anything is built of it."""
    long = encode_header(msgspec.structs.replace(HEADER, route=(1,) * MAX_HEADER_BYTES))
    with pytest.raises(RunError, match=f"at most {MAX_HEADER_BYTES}"):
        decode_header("a", long)


@pytest.mark.parametrize(
    "change",
    [
        {"tensor": "y"},
        {"box": Region(((0, 4), (0, 2)))},
        {"dtype": "int32"},
        {"source": "c"},
        {"target": "c"},
        {"wire": "float16"},
        {"wire_bytes": 16},
    ],
)
def test_a_digest_changes_with_what_a_piece_is(change: dict[str, object]) -> None:
    """Two programs that disagree on a stream notice it at the first piece."""
    assert digest_stream(msgspec.structs.replace(STREAM, **change)) != digest_stream(STREAM)


def test_a_digest_does_not_change_with_what_a_piece_is_not() -> None:
    """Number and credit of a stream are checked elsewhere, or belong to one side only."""
    assert digest_stream(msgspec.structs.replace(STREAM, id=9, credit=4)) == digest_stream(STREAM)
