"""The threads of a device: each runs its jobs one at a time, in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from queue import SimpleQueue

Job = Callable[[], None]


class Lane:
    """One named thread with a queue of jobs; jobs must not raise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.put = self._jobs.put
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let the thread end after the jobs that it has."""
        self._jobs.put(None)

    def close(self, timeout_s: float = 2.0) -> None:
        """End the thread after the job under way; jobs behind it are still done."""
        self.end()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _work(self) -> None:
        get = self._jobs.get
        while (job := get()) is not None:
            job()
            del job  # the queue may stay empty for long; what the job holds is freed meanwhile


class Lanes:
    """The lanes of one device, created on first use.

    Args:
        owner: The device, for the threads' names.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()

    def lane(self, name: str) -> Lane:
        """The lane ``compute``, ``receive``, ``deliver``, ``credits`` or ``send:<target>``."""
        with self._lock:
            lane = self._lanes.get(name)
            if lane is None:
                lane = self._lanes[name] = Lane(f"{self._owner}/{name}")
            return lane

    def keep(self, names: Collection[str]) -> None:
        """Let all other lanes end after the jobs that they have."""
        with self._lock:
            for name in [name for name in self._lanes if name not in names]:
                self._lanes.pop(name).end()

    def close(self) -> None:
        """End all lanes."""
        for lane in self._lanes.values():
            lane.close()
