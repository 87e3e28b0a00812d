"""Messages between leader and worker."""

from __future__ import annotations

import msgspec
import pytest
from tests.worker.tiny import tiny_chain

from partita.errors import RunError
from partita.worker import messages
from partita.worker.messages import (
    FIRST_ANSWER,
    FIRST_FEED,
    Have,
    MessageFlow,
    Prepare,
    Progress,
    Put,
    SpansFrom,
    Stats,
    TimeMessages,
    answer_streams,
    check_version,
    decode_message,
    encode_message,
    feed_streams,
)

PROGRAM = tiny_chain(2, 2).program


@pytest.mark.parametrize(
    "message",
    [
        Have(1, ("ab", "cd")),
        Put("ab", 5, 10, b"\x00\xff"),
        Prepare(3, PROGRAM, "leader", trace=False),
        Progress(True, 1, 2),
        SpansFrom(1, 2, 3),
        TimeMessages((MessageFlow("d1", 100, 3), MessageFlow("d2", 5, 1))),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_survive_the_wire(message: msgspec.Struct) -> None:
    """What one side writes is what the other side reads, programs and bytes included."""
    assert decode_message(encode_message(message), type(message)) == message


@pytest.mark.parametrize("body", [b"", b"garbage", b"\xc1", encode_message(Have(1, ()))[:-1]])
def test_malformed_messages_are_errors_of_the_run(body: bytes) -> None:
    """Garbage and cut messages are refused in words, not with the decoder's exception."""
    with pytest.raises(RunError, match=f"Message Have of {len(body)} bytes is malformed"):
        decode_message(body, Have)


def test_a_message_of_another_type_is_refused() -> None:
    """A field that is missing or of another type is named; nothing is guessed."""
    with pytest.raises(RunError, match="missing required field `busy_s`"):
        decode_message(encode_message(Have(1, ())), Stats)
    with pytest.raises(RunError, match="Expected `int`"):
        decode_message(msgspec.msgpack.encode({"epoch": "1", "hashes": []}), Have)


def test_feeds_and_answers_have_streams_of_their_own() -> None:
    """They run between leader and requester, hold whole tensors, and collide with no other id."""
    (feed,), (answer,) = feed_streams(PROGRAM, "leader"), answer_streams(PROGRAM, "leader")
    assert (feed.source, feed.target) == ("leader", "d0")
    assert (answer.source, answer.target) == ("d0", "leader")
    assert (feed.id, answer.id) == (FIRST_FEED, FIRST_ANSWER)
    assert max(stream.id for stream in PROGRAM.streams) < FIRST_FEED < FIRST_ANSWER
    assert (feed.wire, feed.wire_bytes) == ("raw", 16)


def test_versions_of_one_protocol_work_together() -> None:
    """Of another protocol none does: the error names the worker and all four numbers."""
    for theirs in (("1.0", 2), ("1.1", 2)):
        check_version(("1.0", 2), theirs, "pi")
    with pytest.raises(RunError, match="'pi' is of another version") as caught:
        check_version(("1.0", 2), ("1.1", 3), "pi")
    for numbers in ("1.0 (protocol 2)", "1.1 (protocol 3)"):
        assert numbers in caught.value.message
    assert caught.value.device == "pi"


def test_a_chunk_fits_into_one_call() -> None:
    """A call carries a few MiB at most; a chunk with its head stays below that."""
    put = Put("a" * 64, 0, 2**40, bytes(messages.CHUNK_BYTES))
    assert len(encode_message(put)) < 2 * 2**20
