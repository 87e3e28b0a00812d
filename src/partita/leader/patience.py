"""How long the end of a session waits for what works beside it."""

from __future__ import annotations

import threading
import time
from concurrent import futures
from typing import Any


class Patience:
    """Seconds that several things have together to end.

    Args:
        seconds: From now on; None waits for as long as it takes.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._end_s = None if seconds is None else time.monotonic() + seconds

    @property
    def left_s(self) -> float | None:
        """The seconds that are left; None without a limit."""
        return None if self._end_s is None else max(0.0, self._end_s - time.monotonic())

    def join(self, thread: threading.Thread | None) -> bool:
        """Whether a thread has ended in time; the one that asks does not wait for itself."""
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(self.left_s)
        return not thread.is_alive()

    def wait(self, *jobs: futures.Future[Any] | None) -> bool:
        """Whether some jobs were done, or called off, in time."""
        open_jobs = [job for job in jobs if job is not None and not job.done()]
        return not futures.wait(open_jobs, self.left_s).not_done
