"""Waiting for a point in time, more exactly than ``time.sleep`` does."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from typing import Protocol

#: Sleep up to this long before the deadline, then look at the clock: sleeps end 50 to 200 us late.
_SPIN_S = 150e-6
_PR_SET_TIMERSLACK = 29
_SLACK_NS = 1000
_NICE = 10
_thread = threading.local()


class Clock(Protocol):
    """Where time comes from; tests put a virtual one in its place."""

    def now_s(self) -> float:
        """Return seconds on a clock that never goes back and that all processes of a host share."""

    def wait_until(self, deadline_s: float) -> None:
        """Return at ``deadline_s``, or at once where it has passed."""


class MonotonicClock:
    """The host's monotonic clock."""

    def now_s(self) -> float:
        """Return seconds since the host started."""
        return time.monotonic()

    def wait_until(self, deadline_s: float) -> None:
        """Sleep until shortly before the deadline, then yield until it has come."""
        set_timer_slack()
        remaining_s = deadline_s - time.monotonic()
        while remaining_s > _SPIN_S:
            time.sleep(remaining_s - _SPIN_S)
            remaining_s = deadline_s - time.monotonic()
        while time.monotonic() < deadline_s:
            time.sleep(0)  # gives the interpreter lock to other threads


def lower_priority() -> None:
    """Let other threads and processes go first when cores are short; lasts for this thread.

    An emulated device computes for real in a fraction of its time; what it computes must not keep
    messages of other emulated devices waiting, which would have cores of their own.
    """
    if getattr(_thread, "yields", False):
        return
    _thread.yields = True
    with contextlib.suppress(AttributeError, OSError):  # not every system has threads' priorities
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def set_timer_slack() -> None:
    """Ask the system to end this thread's sleeps within 1 us instead of 50 us; once per thread."""
    if getattr(_thread, "is_sharp", False):
        return
    _thread.is_sharp = True
    prctl = getattr(ctypes.CDLL(None), "prctl", None)  # Linux only; elsewhere sleeps stay coarse
    if prctl is not None:
        prctl(_PR_SET_TIMERSLACK, _SLACK_NS, 0, 0, 0)
