"""Liveness of peers: tokens of the network joined with answers of the peers' own loops."""

from __future__ import annotations

import threading

from partita.fabric.base import WatchCallback

Tell = tuple[WatchCallback, str, bool]


class Presence:
    """The state of all peers; it returns the callbacks to make and makes none itself.

    Its times are those of a clock that counts while this endpoint listens.

    Args:
        silence_s: A watched peer that answered nothing for this long counts as hung.
    """

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._lock = threading.Lock()
        self._heard_s: dict[str, float] = {}
        self._hung: set[str] = set()
        self._watches: list[WatchCallback] = []

    @property
    def is_watched(self) -> bool:
        """Whether anybody wants to know."""
        return bool(self._watches)

    def watch(self, callback: WatchCallback, now_s: float) -> None:
        """Add a watcher and call it for each peer that is there now."""
        with self._lock:
            self._watches.append(callback)
            there = sorted(self._alive())
        self.excuse(now_s)
        for name in there:
            callback(name, True)

    def excuse(self, now_s: float) -> None:
        """Restart the silence of all peers: nobody was asked until now."""
        with self._lock:
            self._heard_s = dict.fromkeys(self._heard_s, now_s)

    def alive(self) -> set[str]:
        """The names of those that are there and answer."""
        with self._lock:
            return self._alive()

    def _alive(self) -> set[str]:
        return set(self._heard_s) - self._hung

    def to_ask(self) -> list[str]:
        """The names of all that have a token, hung or not."""
        with self._lock:
            return list(self._heard_s)

    def seen(self, name: str, is_there: bool, now_s: float) -> list[Tell]:
        """Record that a peer's token came or went; returns the callbacks to make."""
        with self._lock:
            was_alive = name in self._alive()
            self._hung.discard(name)
            if is_there:
                self._heard_s[name] = now_s
            else:
                self._heard_s.pop(name, None)
            return self._tell(name, is_there) if was_alive != is_there else []

    def heard(self, name: str, now_s: float) -> list[Tell]:
        """Record that a peer answered; returns the callbacks to make where it is back."""
        with self._lock:
            if name not in self._heard_s:
                return []
            self._heard_s[name] = now_s
            if name not in self._hung:
                return []
            self._hung.discard(name)
            return self._tell(name, True)

    def find_hung(self, now_s: float) -> list[Tell]:
        """The callbacks to make for peers that have a token but no longer answer."""
        told: list[Tell] = []
        with self._lock:
            for name, heard_s in self._heard_s.items():
                if name not in self._hung and now_s - heard_s > self._silence_s:
                    self._hung.add(name)
                    told += self._tell(name, False)
        return told

    def _tell(self, name: str, is_alive: bool) -> list[Tell]:
        return [(watch, name, is_alive) for watch in self._watches]
