"""A thread that runs an endpoint's callbacks in order and survives their errors."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from partita.errors import RunError, name_error
from partita.fabric.base import ErrorCallback


def ignore_error(error: RunError) -> None:
    """Drop a fault: the default where nobody asked for them."""


class CallbackThread:
    """Runs jobs one at a time, in the order they were put."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], ErrorCallback] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._turn, name=f"partita-{name}", daemon=True)
        self._thread.start()

    def put(self, job: Callable[[], None], on_error: ErrorCallback) -> None:
        """Queue one job; what it raises goes to ``on_error`` as a ``RunError``."""
        self._jobs.put((job, on_error))

    def close(self) -> None:
        """End after the jobs that are queued; waits unless called by a job of its own."""
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def _turn(self) -> None:
        while (item := self._jobs.get()) is not None:
            run_guarded(*item, name=self._thread.name)


class Drain:
    """Takes messages off a network thread at once and works on them on a thread of its own.

    Zenoh's own callback threads would keep the process from ending; this one does not.

    Args:
        work: Called with each message, in order.
        on_error: Gets what ``work`` raises.
    """

    def __init__(
        self, name: str, work: Callable[[Any], None], on_error: Callable[[RunError], None]
    ) -> None:
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._work, self._on_error = work, on_error
        self._thread = threading.Thread(target=self._turn, name=f"partita-{name}", daemon=True)
        self._thread.start()
        self.put = self._messages.put

    def close(self) -> None:
        """End after the messages that are queued; waits unless called by its own work."""
        self._messages.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def _turn(self) -> None:
        while (message := self._messages.get()) is not None:
            run_guarded(partial(self._work, message), self._on_error, self._thread.name)


def run_guarded(job: Callable[[], None], on_error: ErrorCallback, name: str) -> None:
    """Run ``job``; whatever it raises becomes one call of ``on_error``."""
    try:
        job()
    except RunError as error:
        on_error(error)
    except Exception as error:  # a callback's fault must not end the receiving thread
        on_error(RunError(f"Callback on {name} failed: {name_error(error)}"))
