"""What every filling of the fabric must do; a new filling is added to ``FILLINGS``."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from partita.errors import ClusterError, LinkError, RunError
from partita.fabric import Caller, Endpoint, PieceGate, PieceHeader, digest_stream, encode_header
from partita.fabric.frames import decode_header
from partita.program import Stream
from partita.regions import Region
from tests.conformance.fabrics import FILLINGS, Inbox, fabric

SIZES = (0, 1, 64 * 1024, 256 * 1024 + 1, 3_000_000)

pytestmark = pytest.mark.parametrize("filling", FILLINGS)


def pattern(size: int, seed: int) -> bytes:
    """Return bytes that differ along the piece and between seeds."""
    return bytes((seed + i) % 251 for i in range(997)) * (size // 997 + 1) if size else b""


def test_pieces_of_all_sizes_arrive_whole(filling: str) -> None:
    """Empty, tiny, chunked and large pieces arrive with their header, byte for byte."""
    with fabric(filling, "a", "b") as ((a, _), (_, inbox)):
        sent = [(b"%d" % n, pattern(size, n)[:size]) for n, size in enumerate(SIZES)]
        for header, payload in sent:
            a.send("b", header, memoryview(payload))
        inbox.wait(lambda: len(inbox.pieces) == len(SIZES))
        assert inbox.pieces == [("a", header, payload) for header, payload in sent]
        assert inbox.errors == []


def test_order_of_sends_is_order_of_arrival(filling: str) -> None:
    """Two hundred small pieces between large ones keep their order, and none is doubled."""
    with fabric(filling, "a", "b") as ((a, _), (_, inbox)):
        for n in range(200):
            a.send("b", n.to_bytes(4, "big"), bytes(400_000 if n % 50 == 0 else 7))
        inbox.wait(lambda: len(inbox.pieces) == 200)
        heads = [int.from_bytes(header, "big") for _, header, _ in inbox.pieces]
        assert heads == list(range(200))


def test_many_senders_and_targets_at_once(filling: str) -> None:
    """Four threads that send from two endpoints to two others mix nothing up."""
    with fabric(filling, "a", "b", "c") as ((a, b, c), inboxes):
        ways = [(a, "b"), (a, "c"), (b, "c"), (c, "b")]

        def run(way: int) -> None:
            endpoint, target = ways[way]
            for n in range(25):
                endpoint.send(target, b"%d/%d" % (way, n), pattern(300_000, way)[: 300 * (n * 40)])

        threads = [threading.Thread(target=run, args=(way,)) for way in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, inbox in zip("bc", inboxes[1:], strict=True):
            inbox.wait(lambda inbox=inbox: len(inbox.pieces) == 50)
            for way, (endpoint, target) in enumerate(ways):
                if target == name:
                    mine = [p for p in inbox.pieces if p[1].startswith(b"%d/" % way)]
                    assert [p[1] for p in mine] == [b"%d/%d" % (way, n) for n in range(25)]
                    assert all(source == endpoint.name for source, _, _ in mine)
                    assert mine[9][2] == pattern(300_000, way)[: 300 * 360]


def test_both_directions_at_once(filling: str) -> None:
    """Two endpoints that send large pieces to each other do not block each other."""
    with fabric(filling, "a", "b") as ((a, b), inboxes):
        ends = [(a, "b"), (b, "a")]
        threads = [
            threading.Thread(
                target=lambda e=e, t=t: [e.send(t, b"", bytes(2**20)) for _ in range(8)]
            )
            for e, t in ends
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        for inbox in inboxes:
            inbox.wait(lambda inbox=inbox: len(inbox.pieces) == 8)


def test_call_returns_the_handlers_answer(filling: str) -> None:
    """Method and body reach the handler; its answer comes back, also a large one."""
    with fabric(filling, "a", "b") as ((a, b), _):
        b.serve(lambda caller, method, body: method.encode() + body * 2)
        assert a.call("b", "double", b"xy", 5) == b"doublexyxy"
        assert a.call("b", "", bytes(10**6), 5) == bytes(2 * 10**6)


def test_call_carries_the_handlers_error(filling: str) -> None:
    """A refusal of the handler is a RunError that names the device, and the next call works."""

    def handler(caller: Caller, method: str, body: bytes) -> bytes:
        if method == "refuse":
            raise RunError("the store is full")
        return bytes([1 // len(body)])

    with fabric(filling, "a", "b") as ((a, b), _):
        b.serve(handler)
        with pytest.raises(RunError, match=r"'b': the store is full") as caught:
            a.call("b", "refuse", b"", 5)
        assert caught.value.device == "b"
        with pytest.raises(RunError, match="ZeroDivisionError"):
            a.call("b", "divide", b"", 5)
        assert a.call("b", "divide", b"x", 5) == b"\x01"


def test_call_times_out(filling: str) -> None:
    """A handler that does not answer in time costs the caller its timeout, not more."""
    if filling.endswith("inline"):
        pytest.skip("calls run on the caller's own thread")
    with fabric(filling, "a", "b") as ((a, b), _):
        done = threading.Event()
        b.serve(lambda caller, method, body: b"late" if done.wait(5) else b"")
        started_s = time.monotonic()
        with pytest.raises(RunError, match=r"did not answer 'wait' within 0\.2 s"):
            a.call("b", "wait", b"", 0.2)
        assert time.monotonic() - started_s < 2
        done.set()


def test_unknown_target_is_an_error(filling: str) -> None:
    """A call to a name that nobody has fails with the names of those who are there."""
    with fabric(filling, "a", "b") as ((a, _), (inbox, _)):
        inbox.watch(a)
        inbox.wait(lambda: ("b", True) in inbox.seen)
        with pytest.raises(RunError, match=r"'ghost' cannot be reached.*alive are: b"):
            a.call("ghost", "hello", b"", 0.2)


def test_notes_arrive_in_order(filling: str) -> None:
    """Notes reach one that is seen in the order they were sent; to nobody they are lost quietly."""
    with fabric(filling, "a", "b") as ((a, _), (seen, inbox)):
        seen.watch(a)
        seen.wait(lambda: ("b", True) in seen.seen)
        a.notify("ghost", b"x")
        for n in range(100):
            a.notify("b", b"%d" % n)
        inbox.wait(lambda: len(inbox.notes) == 100)
        assert inbox.notes == [("a", b"%d" % n) for n in range(100)]


def test_an_endpoint_hears_its_own_notes(filling: str) -> None:
    """By the way that those of others take: how late they are says how late it listens."""
    with fabric(filling, "a", "b") as ((a, _), (inbox, _)):
        a.notify("a", b"own")
        inbox.wait(lambda: bool(inbox.notes))
        assert inbox.notes == [("a", b"own")]


def test_watch_sees_coming_and_going(filling: str) -> None:
    """A watcher is told who is there, and who leaves; peers and info say the same."""
    with fabric(filling, "a", "b", "c") as ((a, b, _), (inbox, _, _)):
        inbox.watch(a)
        inbox.wait(lambda: {("b", True), ("c", True)} <= set(inbox.seen))
        assert a.peers() == {"b", "c"}
        assert a.info("c") == b"c"
        b.close()
        inbox.wait(lambda: ("b", False) in inbox.seen)
        assert a.peers() == {"c"}
        assert ("c", False) not in inbox.seen


def await_others(endpoint: Endpoint, inbox: Inbox) -> None:
    """Wait until an endpoint of three has seen both others."""
    inbox.watch(endpoint)
    inbox.wait(lambda: len({name for name, there in inbox.seen if there}) == 2)


def test_who_is_shut_out_is_as_one_that_left(filling: str) -> None:
    """Nothing of it is taken and nothing sent to it; others, and what it does with them, go on."""
    with fabric(filling, "a", "b", "c") as (endpoints, inboxes):
        a, b, c = endpoints
        ours, theirs, _ = inboxes
        for endpoint, inbox in zip(endpoints, inboxes, strict=True):
            endpoint.serve(lambda caller, method, body: body)
            await_others(endpoint, inbox)
        b.send("a", b"before", b"x")
        ours.wait(lambda: bool(ours.pieces))
        a.shut_out(lambda name: name == "b")
        ours.wait(lambda: ("b", False) in ours.seen)
        assert a.peers() == {"c"}
        b.notify("a", b"note")
        with contextlib.suppress(RunError):  # it need not know yet that nobody hears it
            b.send("a", b"after", b"x")
        with pytest.raises(RunError):
            b.call("a", "x", b"", 0.3)
        for use in (lambda: a.send("b", b"", b""), lambda: a.call("b", "x", b"", 0.3)):
            with pytest.raises(LinkError, match="'b' cannot be reached"):
                use()
        a.notify("b", b"note")
        c.send("a", b"head", b"x")
        c.notify("a", b"word")
        assert b.call("c", "x", b"body", 5.0) == c.call("a", "x", b"body", 5.0) == b"body"
        ours.wait(lambda: len(ours.pieces) == 2 and bool(ours.notes))
        assert [source for source, *_ in ours.pieces] == ["b", "c"]
        assert ours.notes == [("c", b"word")]
        assert theirs.notes == theirs.pieces == []


def test_close_is_idempotent_and_final(filling: str) -> None:
    """Closing twice is harmless; a closed endpoint refuses to send, call and notify."""
    with fabric(filling, "a", "b") as ((a, _), _):
        a.close()
        a.close()
        for use in (
            lambda: a.send("b", b"", b""),
            lambda: a.call("b", "x", b"", 1),
            lambda: a.notify("b", b""),
        ):
            with pytest.raises(RunError, match="closed"):
                use()


def test_failing_callback_is_reported_and_survived(filling: str) -> None:
    """An exception in a callback becomes one fault, and the next piece still arrives."""
    with fabric(filling, "a", "b") as ((a, b), (_, inbox)):

        def receive(source: str, header: bytes, payload: memoryview) -> None:
            if header == b"bad":
                raise KeyError("planted")
            inbox._add(inbox.pieces, header)

        b.on_data(receive)
        a.send("b", b"bad", b"")
        a.send("b", b"good", b"")
        inbox.wait(lambda: inbox.pieces == [b"good"])
        assert ["KeyError" in error.message for error in inbox.errors] == [True]


STREAM = Stream(3, "x", Region(((0, 2), (0, 4))), "float32", "a", "b", "raw", 32, 1)
GOOD = PieceHeader(7, 0, (), 3, digest_stream(STREAM), 32)
FRAMES = {
    "cut short": (encode_header(GOOD)[:-3], bytes(32), "header of"),
    "no header": (b"", bytes(32), "header of 0 bytes"),
    "lying length": (encode_header(GOOD), bytes(31), "31 payload bytes"),
    "wrong digest": (encode_header(PieceHeader(7, 0, (), 3, b"12345678", 32)), bytes(32), "shape"),
    "wrong epoch": (encode_header(PieceHeader(6, 0, (), 3, GOOD.digest, 32)), bytes(32), "epoch 6"),
    "unknown stream": (
        encode_header(PieceHeader(7, 0, (), 9, GOOD.digest, 32)),
        bytes(32),
        "stream 9",
    ),
    "unknown type": (b"\x92\xa5other\x01", bytes(32), "header of"),
    "too long": (bytes(20_000), bytes(32), "at most"),
}


def test_bad_frames_are_rejected_with_a_reason(filling: str) -> None:
    """Damaged frames are reported, never delivered, and the good one after each of them is."""
    with fabric(filling, "a", "b") as ((a, b), (_, inbox)):
        gate = PieceGate(7, "b", [STREAM])

        def receive(source: str, header_bytes: bytes, payload: memoryview) -> None:
            header = decode_header(source, header_bytes)
            gate.check(source, header, payload)
            inbox._add(inbox.pieces, header)

        b.on_data(receive)
        for header, payload, _ in FRAMES.values():
            a.send("b", header, payload)
            a.send("b", encode_header(GOOD), bytes(32))
        inbox.wait(lambda: len(inbox.pieces) == len(FRAMES))
        assert inbox.pieces == [GOOD] * len(FRAMES)
        reasons = [reason for _, _, reason in FRAMES.values()]
        assert len(inbox.errors) == len(reasons)
        for error, reason in zip(inbox.errors, reasons, strict=True):
            assert reason in error.message
            assert error.device == "a"


def test_a_name_is_checked(filling: str) -> None:
    """Names that would mean something else on the network are refused."""
    with pytest.raises(ClusterError, match="Device name"), fabric(filling, "a/*"):
        pass
