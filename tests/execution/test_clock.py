"""The link clock against figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from partita.errors import PlanError
from partita.execution import Link, LinkClock, LinkClocks, Port, SharedMedium, TransferTimes


def test_message_takes_cost_then_bytes_then_latency() -> None:
    """1000 B at 500 B/s after 0.1 s of message cost, 0.25 s on the way: 2.1 s and 2.35 s."""
    transfer = LinkClock(500.0, 0.25, 0.1).reserve(0.0, 1000)
    assert transfer == pytest.approx((0.0, 2.1, 2.35))


def test_messages_queue_but_latency_overlaps() -> None:
    """The second message starts when the first has left, not when it has arrived."""
    clock = LinkClock(100.0, 5.0)
    clock.reserve(0.0, 100)
    assert clock.reserve(0.5, 100) == TransferTimes(1.0, 2.0, 7.0)


def test_idle_link_does_not_save_up() -> None:
    """After a pause the link takes a message when it comes, at its own rate."""
    clock = LinkClock(100.0)
    clock.reserve(0.0, 100)
    assert clock.reserve(10.0, 100) == TransferTimes(10.0, 11.0, 11.0)


def test_links_of_one_medium_take_turns() -> None:
    """Two links of one radio send one after the other; a link with its own does not wait."""
    air = SharedMedium()
    up, down, wire = LinkClock(10.0, medium=air), LinkClock(5.0, medium=air), LinkClock(5.0)
    assert up.reserve(0.0, 10).end_s == 1.0
    assert down.reserve(0.0, 10) == TransferTimes(1.0, 3.0, 3.0)
    assert up.reserve(0.0, 10) == TransferTimes(3.0, 4.0, 4.0)
    assert wire.reserve(0.0, 10).end_s == 2.0


def test_messages_through_one_port_share_its_rate() -> None:
    """A port of 10 B/s lets the second of two fast links' 20 B out at 4 s, a slow link's at 20 s.

    The slow link's message takes the port's time for its bytes alone, not for all of its way.
    """
    out = SharedMedium()
    near, far, slow = (LinkClock(rate, ports=[(out, 10.0)]) for rate in (100.0, 50.0, 1.0))
    assert near.reserve(0.0, 20) == TransferTimes(0.0, 2.0, 2.0)
    assert far.reserve(0.0, 20).end_s == 4.0
    assert slow.reserve(4.0, 20).end_s == 24.0
    assert near.reserve(6.0, 20).end_s == 8.0


def test_the_receivers_port_counts_as_the_senders() -> None:
    """Three links to one device of 10 B/s; each message also costs its own link 0.5 s first."""
    links = {
        (name, "d"): Link(name, "d", 100.0, 0.25, 0.5, ports=(Port("d in", 10.0),))
        for name in "abc"
    }
    clocks = LinkClocks(links)
    times = [clocks.between(name, "d").reserve(0.0, 10) for name in "abc"]
    assert [one.end_s for one in times] == [1.0, 2.0, 3.0]
    assert times[2].arrive_s == 3.25
    assert clocks.is_shared("a", "d")
    assert links["a", "d"].occupied_s(10) == 1.0
    assert links["a", "d"].message_s(10) == 1.25
    assert links["a", "d"].occupied_s(1) == pytest.approx(0.51)


def test_rate_changes_within_a_message() -> None:
    """100 B: 20 B in 2 s at 10 B/s, nothing for 1 s, then 80 B at 40 B/s in 2 s."""
    clock = LinkClock(10.0, 0.5, trace=[(2.0, 0.0), (3.0, 40.0)])
    assert clock.reserve(0.0, 100) == TransferTimes(0.0, 5.0, 5.5)


def test_message_that_ends_at_a_change_uses_the_old_rate() -> None:
    """20 B at 10 B/s end exactly at 2 s; the next message goes at the new rate."""
    clock = LinkClock(10.0, trace=[(2.0, 1.0)])
    assert clock.reserve(0.0, 20).end_s == 2.0
    assert clock.reserve(2.0, 3).end_s == 5.0


def test_changes_before_the_message_count() -> None:
    """A message after all changes goes at the last rate."""
    assert LinkClock(10.0, trace=[(1.0, 2.0), (2.0, 4.0)]).reserve(3.0, 8).end_s == 5.0


def test_infinite_bandwidth_leaves_cost_and_latency() -> None:
    """On a link without a rate limit only fixed costs remain."""
    assert LinkClock(math.inf, 0.5, 0.25).reserve(1.0, 10**9) == TransferTimes(1.0, 1.25, 1.75)


@pytest.mark.parametrize(
    ("bandwidth", "latency_s", "trace", "message"),
    [
        (0.0, 0.0, (), "above 0"),
        (1.0, -1.0, (), "not below"),
        (1.0, 0.0, ((2.0, 1.0), (1.0, 1.0)), "increasing"),
        (1.0, 0.0, ((1.0, 0.0),), "ends with rate 0"),
    ],
)
def test_impossible_links_are_refused(
    bandwidth: float, latency_s: float, trace: tuple[tuple[float, float], ...], message: str
) -> None:
    """A link that could never send, or sends into the past, is an error."""
    with pytest.raises(ValueError, match=message):
        LinkClock(bandwidth, latency_s, trace=trace)


def test_missing_link_is_a_plan_error() -> None:
    """A program that sends where no link is names both devices."""
    clocks = LinkClocks({("a", "b"): Link("a", "b", 1.0)})
    assert clocks.between("a", "b") is clocks.between("a", "b")
    with pytest.raises(PlanError, match=r"from 'b' to 'a'.*no such link"):
        clocks.between("b", "a")


def test_a_message_comes_to_the_receivers_port_as_it_leaves_the_senders() -> None:
    """One that waits for its sender's port does not hold the receiver's meanwhile, but after it."""
    out, into, other = SharedMedium(), SharedMedium(), SharedMedium()
    first = LinkClock(1e9, ports=((out, 100.0), (SharedMedium(), 100.0)))
    second = LinkClock(1e9, ports=((out, 100.0), (into, 100.0)))
    third = LinkClock(1e9, ports=((other, 100.0), (into, 100.0)))
    assert first.reserve(0.0, 100).end_s == pytest.approx(1.0)
    assert second.reserve(0.0, 100).end_s == pytest.approx(2.0)
    assert third.reserve(1.0, 50).end_s == pytest.approx(2.5)
