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


def test_a_late_watcher_hears_who_is_there() -> None:
    """Those that hang are not there; each watcher is told of later changes."""
    presence = make()
    presence.seen("c", True, 0.0)
    presence.find_hung(5.0)
    presence.heard("c", 5.1)
    seen: list[tuple[str, bool]] = []
    presence.watch(lambda name, alive: seen.append((name, alive)), 5.2)
    assert seen == [("c", True)]
    assert len(presence.seen("c", False, 5.3)) == 2


def test_what_is_unknown_is_not_alive() -> None:
    """An answer of a peer without a token, or a token that goes twice, tells nothing."""
    presence = make()
    assert presence.heard("stranger", 1.0) == []
    assert presence.alive() == {"b"}
    assert told(presence.seen("b", False, 1.0)) == [("b", False)]
    assert presence.seen("b", False, 1.1) == []
    assert presence.seen("b", True, 1.2) != []
    assert presence.seen("b", True, 1.3) == []


def test_hung_peers_are_asked_on() -> None:
    """Else one that was only stopped could never come back."""
    presence = make()
    presence.find_hung(5.0)
    assert presence.to_ask() == ["b"]
