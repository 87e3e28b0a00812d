"""What stands by for losses: epochs that are prepared, or whose content alone is on the workers."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator

from partita.leader.deployment import Deployment
from partita.program import Program


class Standbys:
    """Deployments that wait for a loss.

    Args:
        first: A fallback, prepared; it stays until it takes over.
    """

    def __init__(self, first: Deployment | None) -> None:
        self._lock = threading.Lock()
        self._waiting = [] if first is None else [first]

    def __iter__(self) -> Iterator[Deployment]:
        return iter(list(self._waiting))

    def hold(self, spare: Deployment, stale: Deployment | None = None) -> None:
        """Have one more wait, in the place of another."""
        with self._lock:
            self._waiting = [each for each in self._waiting if each is not stale] + [spare]

    def take(self, program: Program, there: Collection[str]) -> Deployment | None:
        """That with a program, if all of its devices are there; it does not wait any more."""
        with self._lock:
            for spare in self._waiting:
                if spare.program == program and set(spare.devices) <= set(there):
                    self._waiting.remove(spare)
                    return spare
        return None

    def drop(self, device: str = "") -> None:
        """Let workers forget what is not prepared, as its time is over.

        Args:
            device: Only what uses this one.
        """
        with self._lock:
            stale = [
                each
                for each in self._waiting
                if not each.is_prepared and (not device or device in each.devices)
            ]
            self._waiting = [each for each in self._waiting if each not in stale]
        for spare in stale:
            spare.retire()
