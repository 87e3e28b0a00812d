"""A thread whose start nobody waits for."""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable


class DetachedThread:
    """A task in a thread of its own, begun when this is made.

    :class:`threading.Thread` hands over to the new thread and back when it is started. Beside the
    engine's threads, which spin for a while after a run, that takes one or two milliseconds.

    Args:
        task: What is done; it raises nothing.

    Raises:
        RuntimeError: No thread is to be had.
    """

    def __init__(self, task: Callable[[], None]) -> None:
        self._task = task
        self._process = os.getpid()
        self._has_ended = False
        self._running = threading.Lock()
        self._running.acquire()
        self._number = _thread.start_new_thread(self._run, ())

    def join(self) -> None:
        """Wait for the task's end; not in that task itself, nor in a copy by fork."""
        if os.getpid() != self._process or threading.get_ident() == self._number:
            return
        if not self._has_ended:  # Ctrl-C may leave the lock held
            with self._running:
                pass

    def _run(self) -> None:
        try:
            self._task()
        finally:
            self._has_ended = True
            self._running.release()
