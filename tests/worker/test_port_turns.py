"""Large messages leave a port in turn; small ones and free ports wait for nobody."""

from __future__ import annotations

import pytest
from tests.engine.test_slowed import VirtualClock

from partita.worker.port_turns import LARGE_BYTES, PortTurns


def test_large_messages_leave_one_after_the_other() -> None:
    """The second waits until the first has left, the third for both; later ones for nobody."""
    clock = VirtualClock()
    turns, began_s = PortTurns(clock), clock.time_s
    for waited in (0.0, 1.0, 2.0):
        turns.wait_until(turns.reserve(100_000, 1e5))
        assert clock.time_s - began_s == pytest.approx(waited)
    clock.time_s += 5.0
    assert turns.reserve(100_000, 1e5) - began_s == pytest.approx(7.0)


def test_small_messages_do_not_wait() -> None:
    """Beside a large one that takes a second they are nothing."""
    clock = VirtualClock()
    turns, began_s = PortTurns(clock), clock.time_s
    turns.reserve(100_000, 1e5)
    assert turns.reserve(LARGE_BYTES - 1, 1e5) == began_s
