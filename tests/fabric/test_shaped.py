"""Emulated links on a virtual clock: when pieces leave and when they are there."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from partita.errors import RunError
from partita.execution import Link, LinkClock, LinkClocks, Port
from partita.fabric import MemoryFabric, ShapedEndpoint
from partita.fabric.medium import FileMedium
from partita.fabric.shaped import _read_stamp
from tests.engine.test_slowed import VirtualClock


def test_send_returns_when_the_last_byte_has_left() -> None:
    """A sender is held for message cost and serialisation, not for the latency."""
    fabric, clock = MemoryFabric(inline=True), VirtualClock()
    fabric.endpoint("b")
    shape = Link("a", "b", 1000.0, latency_s=5.0, per_message_s=0.25)
    a = ShapedEndpoint(fabric.endpoint("a"), {"b": shape}, clock=clock)
    a.send("b", b"h", bytes(500))
    assert clock.now_s() == pytest.approx(100.75)
    a.send("b", b"h", bytes(1000))
    assert clock.now_s() == pytest.approx(102.0)
    a.close()


def test_links_that_are_not_named_are_free() -> None:
    """A target without a link costs nothing."""
    fabric, clock = MemoryFabric(inline=True), VirtualClock()
    fabric.endpoint("b")
    a = ShapedEndpoint(fabric.endpoint("a"), {}, clock=clock)
    a.send("b", b"h", bytes(10**6))
    assert clock.now_s() == 100.0
    a.close()


def test_pieces_are_stamped_with_the_link_clocks_arrival() -> None:
    """The receiver is told exactly the time that the simulation would use."""
    fabric, clock = MemoryFabric(inline=True), VirtualClock()
    stamps: list[float] = []
    fabric.endpoint("b").on_data(lambda s, header, p: stamps.append(_read_stamp(s, header)))
    trace = ((0.5, 100.0), (3.0, 2000.0))
    shape = Link("a", "b", 1000.0, 0.125, 0.01, trace=trace)
    a = ShapedEndpoint(fabric.endpoint("a"), {"b": shape}, origin_s=100.0, clock=clock)
    link, now_s, expected = LinkClock(1000.0, 0.125, 0.01, trace=trace), 0.0, []
    for size in (100, 700, 5000, 0):
        transfer = link.reserve(now_s, size)
        expected.append(100.0 + transfer.arrive_s)
        now_s = transfer.end_s
        a.send("b", b"", bytes(size))
    assert stamps == pytest.approx(expected)
    a.close()


def test_garbage_without_a_stamp_is_rejected() -> None:
    """A frame too short for its stamp, or with an impossible one, is an error, not a wait."""
    fabric = MemoryFabric()
    raw, b = fabric.endpoint("raw"), ShapedEndpoint(fabric.endpoint("b"), {})
    errors: list[RunError] = []
    seen = threading.Event()
    b.on_error(errors.append)
    b.on_data(lambda source, header, payload: seen.set())
    raw.send("b", b"\x01short", b"")
    raw.send("b", b"\x01" + b"\xff" * 8, b"")
    raw.send("b", b"\x01" + bytes(8) + b"good", b"")
    assert seen.wait(5)
    assert [error.device for error in errors] == ["raw", "raw"]
    b.close()
    raw.close()


def test_endpoints_that_shape_nothing_take_part() -> None:
    """A frame without a stamp is delivered at once; only what is delayed is stamped."""
    fabric = MemoryFabric()
    raw, b = fabric.endpoint("raw"), ShapedEndpoint(fabric.endpoint("b"), {})
    seen: list[bytes] = []
    both = threading.Barrier(2, timeout=5)
    b.on_data(lambda source, header, payload: (seen.append(header), both.wait()))  # type: ignore[func-returns-value]
    raw.on_data(lambda source, header, payload: (seen.append(header), both.wait()))  # type: ignore[func-returns-value]
    raw.send("b", b"\x93plain", b"")
    both.wait()
    b.send("raw", b"\x93back", b"")
    both.wait()
    assert seen == [b"\x93plain", b"\x93back"]
    b.close()
    raw.close()


def test_two_links_of_one_medium_take_turns(tmp_path: Path) -> None:
    """Links that name one file share its airtime, also from different processes."""
    path = str(tmp_path / "radio")
    medium = FileMedium(path)
    with medium.hold():
        medium.free_at_s = 102.0
    code = (
        "import sys; from partita.fabric.medium import FileMedium\n"
        "m = FileMedium(sys.argv[1])\n"
        "with m.hold(): m.free_at_s += 1.0"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True, timeout=60)
    fabric, clock = MemoryFabric(inline=True), VirtualClock()
    fabric.endpoint("b")
    shape = Link("a", "b", 1000.0, medium=path)
    a = ShapedEndpoint(fabric.endpoint("a"), {"b": shape}, clock=clock)
    a.send("b", b"", bytes(500))
    assert clock.now_s() == pytest.approx(103.5)
    assert medium.free_at_s == pytest.approx(103.5)
    medium.close()
    a.close()


def test_pieces_through_one_port_take_turns_across_devices(tmp_path: Path) -> None:
    """Pieces that leave one device and come to one are stamped as the simulation's clocks say."""
    fabric, clock = MemoryFabric(inline=True), VirtualClock()
    stamps: list[float] = []
    for name in "cd":
        fabric.endpoint(name).on_data(
            lambda source, header, p: stamps.append(_read_stamp(source, header))
        )
    ports = {end: Port(str(tmp_path / end), 1000.0) for end in ("a out", "b out", "c in", "d in")}
    links = {
        pair: Link(*pair, 5000.0, 0.125, ports=(ports[f"{pair[0]} out"], ports[f"{pair[1]} in"]))
        for pair in (("a", "c"), ("a", "d"), ("b", "c"))
    }
    senders = {
        name: ShapedEndpoint(
            fabric.endpoint(name),
            {target: link for (source, target), link in links.items() if source == name},
            clock=clock,
        )
        for name in "ab"
    }
    clocks, expected = LinkClocks(links), []
    for source, target in (("a", "c"), ("b", "c"), ("a", "d"), ("b", "c")):
        transfer = clocks.between(source, target).reserve(clock.now_s(), 500)
        expected.append(transfer.arrive_s)
        senders[source].send(target, b"", bytes(500))
    assert stamps == pytest.approx(expected)
    for sender in senders.values():
        sender.close()


@pytest.mark.slow
def test_real_clock_is_close_to_the_ideal() -> None:
    """On the real clock pieces arrive after their time, in order, and not much later."""
    fabric = MemoryFabric()
    b = ShapedEndpoint(fabric.endpoint("b"), {})
    a = ShapedEndpoint(fabric.endpoint("a"), {"b": Link("a", "b", 10e6, latency_s=0.01)})
    arrivals: list[tuple[bytes, float]] = []
    done = threading.Event()

    def receive(source: str, header: bytes, payload: memoryview) -> None:
        arrivals.append((header, time.monotonic()))
        if len(arrivals) == 5:
            done.set()

    b.on_data(receive)
    start_s = time.monotonic()
    for n in range(5):
        a.send("b", b"%d" % n, bytes(100_000))
    assert done.wait(10)
    assert [header for header, _ in arrivals] == [b"%d" % n for n in range(5)]
    for n, (_, time_s) in enumerate(arrivals):
        assert time_s - start_s >= 0.01 * (n + 1) + 0.01
    a.close()
    b.close()


def test_traces_begin_when_told_and_may_begin_again() -> None:
    """Until they begin the rate of second 0 holds; then seconds count from the given time."""
    fabric, clock = MemoryFabric(inline=True), VirtualClock()
    fabric.endpoint("b")
    shape = Link("a", "b", 1000.0, trace=((0.0, 500.0), (2.0, 100.0)))
    a = ShapedEndpoint(fabric.endpoint("a"), {"b": shape}, clock=clock)
    a.send("b", b"", bytes(5000))
    assert clock.now_s() == pytest.approx(110.0)
    for at_s in (110.0, 115.0):
        a.begin_traces(at_s)
        a.send("b", b"", bytes(1300))
        assert clock.now_s() == pytest.approx(at_s + 5.0)
    a.close()
