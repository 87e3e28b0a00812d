"""From what workers report to rates and slowness."""

from __future__ import annotations

import pytest

from partita.leader.rate_monitor import Expected, RateMonitor
from partita.worker.messages import ComputeTotals, SendTotals, Stats

EXPECTED = Expected({1: 0.5, 2: 0.25}, {("a", "b"): 0.1}, {("a", "c"): 2.0})


def stats(*sent: SendTotals, worked: tuple[ComputeTotals, ...] = ()) -> Stats:
    """Return what a device reports, as far as it matters here."""
    return Stats(0.0, 0, 0, 0, sent, 0, 0, (), worked)


def test_a_rate_is_bytes_per_second_on_the_wire_since_the_last_look() -> None:
    """The fixed cost of messages is taken off, and sums become differences."""
    watch = RateMonitor(EXPECTED, frozenset("a"))
    first = watch.sample({"a": stats(SendTotals("b", 10_000, 9.0, 2, 1.2))})
    assert first.rates["a", "b"] == pytest.approx(10_000 / (1.2 - 0.2))
    second = watch.sample({"a": stats(SendTotals("b", 16_000, 9.0, 4, 3.4))})
    assert second.rates["a", "b"] == pytest.approx(6_000 / (2.2 - 0.2))
    assert watch.sample({"a": stats(SendTotals("b", 16_000, 9.0, 4, 3.4))}).rates == {}


def test_turns_on_a_shared_medium_are_taken_off() -> None:
    """What waits twice as long as alone, as predicted, goes at the rate of the link alone."""
    watch = RateMonitor(EXPECTED, frozenset("a"))
    found = watch.sample({"a": stats(SendTotals("c", 10_000, 9.0, 1, 2.0))})
    assert found.rates["a", "c"] == pytest.approx(10_000.0)


def test_quick_messages_and_unpaced_senders_say_nothing() -> None:
    """A message of a millisecond or of few bytes measures threads; a send into a buffer memory."""
    watch = RateMonitor(EXPECTED, frozenset("a"))
    assert watch.sample({"a": stats(SendTotals("d", 20_000, 1.0, 10, 0.01))}).rates == {}
    assert watch.sample({"a": stats(SendTotals("e", 160, 1.0, 10, 0.5))}).rates == {}
    assert watch.sample({"b": stats(SendTotals("a", 10**6, 1.0, 1, 1.0))}).rates == {}


def test_slowness_is_measured_over_priced_time_of_all_steps() -> None:
    """Steps count by what they were priced with; without runs there is no measure."""
    watch = RateMonitor(EXPECTED, frozenset())
    worked = (ComputeTotals(1, 2, 2.0), ComputeTotals(2, 2, 1.0))
    assert watch.sample({"a": stats(worked=worked)}).slowness["a"] == pytest.approx(2.0)
    assert watch.sample({"a": stats(worked=worked)}).slowness == {}
    worked = (ComputeTotals(1, 3, 2.5), ComputeTotals(2, 2, 1.0))
    assert watch.sample({"a": stats(worked=worked)}).slowness["a"] == pytest.approx(1.0)
