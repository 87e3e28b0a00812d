"""A clock that stands still while its owner does."""

from __future__ import annotations

from partita.fabric.awake import AwakeClock
from partita.fabric.presence import Presence


def test_of_each_time_without_a_tick_no_more_than_the_most_counts() -> None:
    """What is read before a tick, and after a late one, is the same."""
    clock = AwakeClock(1.0, now_s=10.0)
    assert clock.read(10.5) == 0.5
    clock.tick(10.5)
    assert clock.read(60.0) == 1.5
    clock.tick(60.0)
    assert clock.read(60.0) == 1.5
    assert clock.read(60.25) == 1.75


def test_a_peer_is_not_hung_by_the_pauses_of_who_asks() -> None:
    """Its answers wait as long as the asker's own pings do: nobody hangs who answers each."""
    clock, now_s = AwakeClock(1.0, now_s=0.0), 0.0
    presence = Presence(silence_s=2.0)
    presence.seen("answers", True, clock.read(now_s))
    presence.seen("hangs", True, clock.read(now_s))
    hung = []
    presence.watch(lambda name, alive: alive or hung.append(name), clock.read(now_s))
    for _ in range(4):
        now_s += 30.0
        for watch, name, alive in presence.find_hung(clock.read(now_s)):
            watch(name, alive)
        clock.tick(now_s)
        presence.heard("answers", clock.read(now_s))
    assert hung == ["hangs"]
