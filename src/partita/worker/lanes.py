"""Threads that each do one thing at a time, in the order asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]


class Lane:
    """One named thread with a queue of jobs; jobs must not raise.

    Args:
        name: What the thread is called.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.put = self._jobs.put
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 2.0) -> None:
        """End the thread after the job under way; jobs behind it are still done."""
        self._jobs.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _work(self) -> None:
        get = self._jobs.get
        while (job := get()) is not None:
            job()
            del job


class Lanes:
    """The lanes of one device, made when first used."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()

    def lane(self, name: str) -> Lane:
        """Return the lane ``name``: ``compute``, ``receive``, ``load:<n>`` or ``send:<target>``."""
        found = self._lanes.get(name)
        if found is None:
            with self._lock:
                found = self._lanes.get(name) or Lane(f"{self._owner}/{name}")
                self._lanes[name] = found
        return found

    def close(self) -> None:
        """End all lanes."""
        for lane in self._lanes.values():
            lane.close()
