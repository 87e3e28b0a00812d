"""Numbered flows over a channel that loses, doubles and cuts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.fabric.checksum import compute_checksum
from partita.fabric.flows import (
    Ack,
    Envelope,
    Inflow,
    Outflow,
    cut_chunks,
    read_envelope,
    write_envelope,
)

CHUNK = 10
Frame = tuple[Envelope, bytes]


def frames_of(flow: Outflow, sequences: list[int] | None = None) -> list[Frame]:
    """Return all frames of the unacknowledged messages, or of some of them."""
    frames = []
    for sent in flow.unacked:
        if sequences is None or sent.sequence in sequences:
            for envelope, start in cut_chunks(flow.flow, sent, CHUNK):
                frames.append((envelope, bytes(sent.payload[start : start + CHUNK])))
    return frames


@settings(max_examples=150)
@given(
    sizes=st.lists(st.integers(0, 45), min_size=1, max_size=12),
    fates=st.lists(st.sampled_from("kkkkkld"), max_size=200),
)
def test_loss_and_doubling_change_nothing(sizes: list[int], fates: list[str]) -> None:
    """Whatever the channel loses or doubles, each message arrives once, whole, in order."""
    outflow, inflow = Outflow(1), Inflow(1)
    messages = [(b"h%d" % n, bytes([n % 256]) * size) for n, size in enumerate(sizes)]
    arrived = []
    for header, payload in messages:
        outflow.stage(header, payload, 0.0)
    fate = iter(fates)
    for _ in range(len(fates) + 2):
        for envelope, data in frames_of(outflow):
            chance = next(fate, "k")
            for _ in range({"k": 1, "l": 0, "d": 2}[chance]):
                whole = inflow.take(read_envelope(write_envelope(envelope, data), data), data)
                if whole is not None:
                    arrived.append((whole[0], bytes(whole[1])))
        outflow.acknowledge(inflow.report(), 0.0)
    assert arrived == messages
    assert not outflow.unacked
    assert outflow.unacked_bytes == 0


def test_gap_is_noticed_and_asks_for_the_rest() -> None:
    """When a message is missing the next one is not taken, and the report says so."""
    outflow, inflow = Outflow(1), Inflow(1)
    for n in range(3):
        outflow.stage(b"", bytes([n]), 0.0)
    for envelope, data in frames_of(outflow, [0, 2]):
        inflow.take(read_envelope(write_envelope(envelope, data), data), data)
    assert inflow.report() == Ack(1, 1, 1, True)
    assert outflow.acknowledge(inflow.report(), 1.0)
    assert [sent.sequence for sent in outflow.unacked] == [1, 2]
    assert outflow.unacked_bytes == 2


def test_acknowledgement_of_another_flow_is_ignored() -> None:
    """A late report about an earlier flow drops nothing."""
    outflow = Outflow(5)
    outflow.stage(b"", b"x", 0.0)
    assert not outflow.acknowledge(Ack(4, 1, 1, True), 0.0)
    assert len(outflow.unacked) == 1


def test_stall_counts_from_the_last_progress() -> None:
    """Time without progress grows only while something is unacknowledged."""
    outflow = Outflow(1)
    assert outflow.stalled_s(100.0) == 0
    outflow.stage(b"", b"x", 100.0)
    assert outflow.stalled_s(101.5) == 1.5
    outflow.acknowledge(Ack(1, 0, 1, False), 102.0)
    assert outflow.stalled_s(102.5) == 0.5
    outflow.acknowledge(Ack(1, 1, 2, False), 103.0)
    assert outflow.stalled_s(110.0) == 0


@pytest.mark.parametrize(
    ("envelope", "data"),
    [
        (Envelope(1, 0, 0, 1, 5, b""), b"1234"),
        (Envelope(1, 0, 0, 1, 5, b""), b"123456"),
        (Envelope(1, 0, 0, 2, 5, b""), b"123456"),
    ],
)
def test_lying_length_is_refused(envelope: Envelope, data: bytes) -> None:
    """A chunk that contradicts the message's size is an error, and the honest one still passes."""
    inflow = Inflow(1)
    with pytest.raises(ValueError, match="its header says 5"):
        inflow.take(envelope, data)
    assert inflow.take(Envelope(1, 0, 0, 1, 5, b"h"), b"12345") == (b"h", b"12345")


def test_waiting_parts_are_all_that_is_kept() -> None:
    """Frames out of order take no memory at the receiver."""
    inflow = Inflow(1)
    for n in range(1, 50):
        inflow.take(Envelope(1, n, 0, 1, 5, b""), b"12345")
    assert inflow.parts == []


@pytest.mark.parametrize("encoded", [b"", b"\x90", b"garbage", b"\x96\x00\x00\x00\x00\x00\xc4\x00"])
def test_unreadable_envelopes_are_value_errors(encoded: bytes) -> None:
    """Empty, short, foreign and impossible envelopes are refused by the decoder."""
    attachment = compute_checksum(b"", encoded).to_bytes(8, "little") + encoded
    with pytest.raises(ValueError, match=r"^(?!its checksum)"):
        read_envelope(attachment, b"")
