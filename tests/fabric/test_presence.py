"""Who counts as alive, decided without a clock or a network."""

from __future__ import annotations

from partita.fabric.presence import Presence, Tell


def told(jobs: list[Tell]) -> list[tuple[str, bool]]:
    """Return what the watchers would hear."""
    return [(name, alive) for _, name, alive in jobs]


def make() -> Presence:
    """Return a watched presence with one peer that appeared at time 0."""
    presence = Presence(silence_s=2.0)
    presence.watch(lambda name, alive: None, 0.0)
    assert told(presence.seen("b", True, 0.0)) == [("b", True)]
    return presence


def test_silent_peer_is_hung_once_and_comes_back_once() -> None:
    """A peer with a token that stops answering goes and returns with one message each."""
    presence = make()
    assert presence.find_hung(1.9) == []
    assert told(presence.find_hung(2.1)) == [("b", False)]
    assert presence.find_hung(3.0) == []
    assert presence.alive() == set()
    assert told(presence.heard("b", 3.1)) == [("b", True)]
    assert presence.heard("b", 3.2) == []
    assert presence.alive() == {"b"}


def test_lost_token_of_a_hung_peer_is_not_told_twice() -> None:
    """First hung, then gone: the watcher hears of one loss."""
    presence = make()
    presence.find_hung(5.0)
    assert presence.seen("b", False, 5.1) == []
    assert presence.heard("b", 5.2) == []
    assert told(presence.seen("b", True, 6.0)) == [("b", True)]


def test_watcher_that_slept_blames_nobody() -> None:
    """When the watcher itself did not run, the silence is not the others'."""
    presence = make()
    presence.excuse(10.0)
    assert presence.find_hung(11.0) == []
