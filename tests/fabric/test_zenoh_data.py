"""Numbered messages over a transport that loses what the test says, on a turned clock."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import zenoh

from partita.errors import RunError
from partita.fabric import ZenohOptions, zenoh_data
from partita.fabric.checksum import compute_checksum
from partita.fabric.flows import (
    FLUSH_MARK,
    Ack,
    AckRequest,
    Envelope,
    Signal,
    read_envelope,
    write_envelope,
)
from partita.fabric.key_expressions import Keys
from partita.fabric.zenoh_data import DataHooks, DataPlane
from tests.engine.test_slowed import VirtualClock
from tests.leader.fakes import fake_time


class Bytes:
    """What Zenoh calls its payloads."""

    def __init__(self, data: bytes) -> None:
        self.to_bytes = lambda: data


class Publisher:
    """Keeps what is put, or fails."""

    def __init__(self) -> None:
        self.matching_status = SimpleNamespace(matching=True)
        self.frames: list[tuple[Envelope, bytes]] = []
        self.error: Exception | None = None
        self.undeclared = 0

    def undeclare(self) -> None:
        """Count."""
        self.undeclared += 1

    def put(self, data: bytes, attachment: bytes) -> None:
        """Keep one chunk."""
        if self.error is not None:
            raise self.error
        self.frames.append((read_envelope(attachment, data), data))


class Session:
    """A session of nobody: samples come from the test."""

    def __init__(self) -> None:
        self.publisher = Publisher()
        self.declare_publisher = lambda key, **settings: self.publisher
        self.closed = 0

    def close(self) -> None:
        """Count."""
        self.closed += 1


class Bench:
    """A data plane with everything that it asks for and tells."""

    def __init__(self, clock: VirtualClock, session: Session) -> None:
        self.clock = clock
        self.session = session
        self.pieces: list[tuple[str, bytes, bytes]] = []
        self.errors: list[RunError] = []
        self.signals: list[tuple[str, Signal]] = []
        hooks = DataHooks(
            lambda source, header, data: self.pieces.append((source, header, bytes(data))),
            self.errors.append,
            lambda target, signal: self.signals.append((target, signal)),
            lambda target: None,
            lambda: None,
        )
        options = ZenohOptions("a", local_sockets=False, patience_s=10.0)
        self.plane = DataPlane(options, hooks)

    @property
    def frames(self) -> list[tuple[Envelope, bytes]]:
        """All chunks that went out."""
        return self.session.publisher.frames

    def sequences(self) -> list[int]:
        """The messages of all chunks that went out."""
        return [envelope.sequence for envelope, _ in self.frames]

    def tick(self, seconds: float) -> bool:
        """Let time pass and see what is due; resends are done on return."""
        self.clock.time_s += seconds
        busy = self.plane.tick(self.clock.time_s)
        for thread in threading.enumerate():
            if "_send_again" in thread.name:
                thread.join(5)
        return busy

    def come(self, envelope: Envelope | bytes, data: bytes = b"", source: str = "b") -> None:
        """Let one chunk arrive."""
        attachment = envelope if isinstance(envelope, bytes) else write_envelope(envelope, data)
        key = Keys("default").data("a", source)
        sample = SimpleNamespace(key_expr=key, attachment=Bytes(attachment), payload=Bytes(data))
        self.plane._take(sample)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A plane over a session of its own."""
    clock, session = VirtualClock(), Session()
    monkeypatch.setattr(zenoh_data, "time", fake_time(clock))
    fake = SimpleNamespace(
        CongestionControl=zenoh.CongestionControl,
        Reliability=zenoh.Reliability,
        ZError=zenoh.ZError,
    )
    monkeypatch.setattr(zenoh_data, "zenoh", fake)
    monkeypatch.setattr(zenoh_data, "open_session", lambda config: session)
    made = Bench(clock, session)
    yield made
    made.plane.close()
    assert session.closed == 1


def test_a_large_piece_goes_out_in_chunks_and_its_header_with_the_first(bench: Bench) -> None:
    """Every chunk says how many there are and how long the whole is."""
    size = zenoh_data.NETWORK_CHUNK_BYTES
    payload = b"a" * size + b"b" * 10
    bench.plane.send("b", b"head", payload)
    assert b"".join(data for _, data in bench.frames) == payload
    assert [e.header for e, _ in bench.frames] == [b"head", b""]
    assert {(e.chunks, e.size_bytes, e.sequence) for e, _ in bench.frames} == {(2, size + 10, 0)}


def test_what_is_not_acknowledged_is_asked_for_then_sent_again_then_given_up(
    bench: Bench,
) -> None:
    """The waits double; at the end the loss is told with its count, and a new flow begins."""
    bench.plane.send("b", b"", b"1")
    bench.plane.send("b", b"", b"2")
    flow = bench.frames[0][0].flow
    assert bench.tick(0.4)
    assert bench.signals == []
    bench.tick(0.2)
    assert bench.signals == [("b", AckRequest(flow))]
    bench.tick(1.0)
    assert bench.sequences() == [0, 1, 0, 1]
    bench.tick(1.0)
    assert len(bench.frames) == 4
    bench.tick(1.0)
    assert len(bench.frames) == 8 - 2
    bench.tick(7.0)
    assert "lost 2 pieces" in bench.errors[0].message
    assert bench.errors[0].device == "b"
    assert not bench.tick(0.1)
    bench.plane.send("b", b"", b"3")
    assert bench.frames[-1][0].flow != flow
    assert bench.frames[-1][0].sequence == 0


def test_an_acknowledgement_ends_the_waiting(bench: Bench) -> None:
    """What has arrived is not kept; what is left is sent again where the receiver saw a gap."""
    for number in range(3):
        bench.plane.send("b", b"", b"%d" % number)
    flow = bench.frames[0][0].flow
    bench.clock.time_s += 1.0
    bench.plane.take_signal("b", Ack(flow, 1, 1, True))
    bench.tick(0.0)
    assert bench.sequences() == [0, 1, 2, 1, 2]
    bench.plane.take_signal("b", Ack(flow, 1, 1, True))
    bench.tick(0.05)
    assert len(bench.frames) == 5  # one resend answers all reports of a gap
    bench.plane.take_signal("b", Ack(flow, 3, 3, False))
    assert not bench.tick(100.0)
    assert bench.errors == []
    bench.plane.take_signal("stranger", Ack(flow, 9, 9, False))


def test_a_flush_is_nothing(bench: Bench) -> None:
    """What only pushes out what was written before it is no piece and no fault."""
    bench.come(FLUSH_MARK)
    assert (bench.pieces, bench.errors, bench.signals) == ([], [], [])
    assert not bench.tick(0.0)


def test_progress_of_a_slow_link_is_no_stall(bench: Bench) -> None:
    """As long as chunks arrive, nothing is sent again, however long the whole takes."""
    bench.plane.send("b", b"", b"1")
    flow = bench.frames[0][0].flow
    for chunks in range(1, 20):
        bench.tick(1.0)
        bench.plane.take_signal("b", Ack(flow, 0, chunks, False))
    assert len(bench.frames) == 1
    assert bench.errors == []


def test_what_arrives_is_delivered_once_and_acknowledged_once_per_tick(bench: Bench) -> None:
    """Doubles and late chunks of a flow that was replaced are not delivered again."""
    bench.come(Envelope(6, 0, 0, 2, 9, b"old"), b"x")
    for sequence in (0, 1, 1):
        bench.come(Envelope(7, sequence, 0, 1, 1, b"h"), b"%d" % sequence)
    bench.come(Envelope(6, 0, 1, 2, 9, b""), b"x")
    bench.come(Envelope(6, 0, 0, 1, 1, b"old"), b"x")
    assert bench.pieces == [("b", b"h", b"0"), ("b", b"h", b"1")]
    bench.tick(0.05)
    bench.tick(0.05)
    assert bench.signals == [("b", Ack(7, 2, 2, False))]


def test_a_restarted_peer_begins_anew(bench: Bench) -> None:
    """A new flow replaces the one before whatever its number, and whatever was half received."""
    bench.come(Envelope(7, 0, 0, 2, 4, b"h"), b"ab")
    bench.plane.forget("b")
    bench.come(Envelope(5, 0, 0, 1, 2, b"new"), b"cd")
    assert bench.pieces == [("b", b"new", b"cd")]
    bench.plane.take_signal("b", AckRequest(5))
    bench.plane.take_signal("b", AckRequest(9))
    bench.plane.take_signal("stranger", AckRequest(1))
    assert [signal for _, signal in bench.signals] == [
        Ack(5, 1, 1, False),
        Ack(9, 0, 0, False),
        Ack(1, 0, 0, False),
    ]


def test_a_peer_that_is_gone_leaves_no_half_message(bench: Bench) -> None:
    """After it is forgotten the same flow may send the message again from its start."""
    bench.come(Envelope(7, 0, 0, 2, 4, b"h"), b"ab")
    bench.plane.forget("b")
    assert bench.plane._inflows["b"].parts == []
    bench.come(Envelope(7, 0, 0, 2, 4, b"h"), b"ab")
    bench.come(Envelope(7, 0, 1, 2, 4, b""), b"cd")
    assert bench.errors == []
    assert bench.pieces == [("b", b"h", b"abcd")]


#: Nothing that an envelope could be, with a checksum that fits.
GARBAGE = compute_checksum(b"x", b"garbage").to_bytes(8, "little") + b"garbage"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (GARBAGE, "no readable envelope"),
        (Envelope(7, 0, 0, 1, 5, b""), "1 bytes, its header says 5"),
        (Envelope(7, 0, 0, 1, 0, b""), "1 bytes, its header says 0"),
    ],
)
def test_garbage_is_told_and_nothing_is_delivered(
    bench: Bench, frame: Envelope | bytes, reason: str
) -> None:
    """A frame that cannot be read, or lies about its length, is a fault of its sender."""
    bench.come(frame, b"x")
    assert reason in bench.errors[0].message
    assert bench.pieces == []


def test_a_damaged_chunk_is_asked_for_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever was damaged, the next report says that there is a gap; nothing is delivered."""
    good = [(Envelope(7, 0, chunk, 2, 4, b"h"[chunk:]), b"ab") for chunk in (0, 1)]
    bench.come(*good[0])
    attachment = bytearray(write_envelope(*good[1]))
    attachment[-3] ^= 4
    for damaged, data in ((write_envelope(*good[1]), b"aB"), (bytes(attachment), b"ab")):
        bench.come(damaged, data)
        bench.tick(0.05)
        assert bench.signals.pop() == ("b", Ack(7, 0, 1, True))
    assert "a chunk from 'b' was damaged" in caplog.text
    for chunk in good:
        bench.come(*chunk)
    assert bench.pieces == [("b", b"h", b"abab")]
    assert bench.errors == []
    bench.come(damaged, b"x", "stranger")  # of whom nothing is known yet: it will ask
    assert not bench.tick(0.05) or bench.signals[-1][0] == "b"


def half(size: int) -> Envelope:
    """The first of two chunks of a message of twice a size."""
    return Envelope(1, 0, 0, 2, 2 * size, b"")


def test_half_messages_of_many_take_no_more_than_their_limit(bench: Bench) -> None:
    """The ones that waited longest go, and are asked for again; what completes is delivered."""
    bench.plane._options = dataclasses.replace(bench.plane._options, inbound_bytes=30)
    for number in range(100):
        bench.come(half(10), b"x" * 10, f"s{number}")
        assert sum(inflow.part_bytes for inflow in bench.plane._inflows.values()) <= 30
    bench.come(Envelope(1, 0, 1, 2, 20, b""), b"y" * 10, "s99")
    assert bench.pieces == [("s99", b"", b"x" * 10 + b"y" * 10)]
    bench.come(Envelope(1, 0, 1, 2, 20, b""), b"y" * 10, "s0")
    bench.signals.clear()
    bench.tick(0.1)
    assert ("s0", Ack(1, 0, 1, True)) in bench.signals


def test_a_large_message_of_one_sender_is_never_dropped_for_itself(bench: Bench) -> None:
    """One piece may be as large as a piece can be, whatever the limit for all."""
    bench.plane._options = dataclasses.replace(bench.plane._options, inbound_bytes=5)
    bench.come(half(10), b"x" * 10, "s")
    bench.come(Envelope(1, 0, 1, 2, 20, b""), b"y" * 10, "s")
    assert len(bench.pieces) == 1


def test_of_very_many_senders_the_silent_are_forgotten(bench: Bench) -> None:
    """Names cost memory, too: no more are kept than the options allow."""
    most = bench.plane._options.max_senders
    for number in range(most + 50):
        bench.come(Envelope(1, 0, 0, 1, 1, b""), b"x", f"s{number}")
    assert len(bench.plane._inflows) == most
    bench.tick(0.1)
    assert {source for source, _ in bench.signals} == set(bench.plane._inflows)


def test_of_very_many_targets_those_that_are_gone_are_forgotten(bench: Bench) -> None:
    """Each leader has a name of its own: a worker that lives for months answers to thousands."""
    bench.plane.send("worker", b"", b"1")
    for number in range(300):
        bench.plane.send(f"leader-{number}", b"", b"1")
        bench.plane.drop(f"leader-{number}")
    assert len(bench.plane._channels) == 256
    assert bench.session.publisher.undeclared == 301 - 256
    assert "worker" in bench.plane._channels


def test_a_piece_beyond_the_limit_is_not_sent(bench: Bench) -> None:
    """It is refused before any of it leaves, by its size alone."""

    class Huge(bytes):
        def __len__(self) -> int:
            return zenoh_data.MAX_PIECE_BYTES + 1

    with pytest.raises(RunError, match="has 1073741825 bytes, at most 1073741824"):
        bench.plane.send("b", b"", Huge())
    assert bench.frames == []


def test_errors_of_the_transport_are_errors_of_the_run(bench: Bench) -> None:
    """Zenoh's own exception does not come out; the target is named."""
    bench.session.publisher.error = zenoh.ZError("closed")
    with pytest.raises(RunError, match="Piece for 'b' not sent: closed") as caught:
        bench.plane.send("b", b"", b"1")
    assert caught.value.device == "b"


def test_a_target_that_does_not_come_is_waited_for_with_patience(bench: Bench) -> None:
    """Nobody listens: after the patience the target is unreachable, and nothing was sent."""
    bench.session.publisher.matching_status.matching = False
    began_s = bench.clock.time_s
    with pytest.raises(RunError, match="'b' cannot be reached"):
        bench.plane.send("b", b"", b"1")
    assert 10.0 < bench.clock.time_s - began_s < 10.1
    assert bench.frames == []
