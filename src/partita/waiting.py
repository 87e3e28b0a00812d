"""Waiting for a point in time, more exactly than ``time.sleep`` does."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from typing import Protocol

#: Sleep until this long before the deadline, then spin: with the slack below, sleeps of a virtual
#: machine still end 50 to 200 us late.
_SPIN_S = 150e-6
_PR_SET_TIMERSLACK = 29
_SLACK_NS = 1000
#: Half of the scheduler's range: a thread at 0 gets nine times the share of one at 10.
_NICE = 10
_thread = threading.local()


class Clock(Protocol):
    """Where time comes from; tests put a virtual one in its place."""

    def now_s(self) -> float:
        """Seconds on a clock that never goes back and that all processes of a host share."""

    def wait_until(self, deadline_s: float) -> None:
        """Block until ``deadline_s``; returns at once where it has passed."""


class MonotonicClock:
    """The host's monotonic clock."""

    def now_s(self) -> float:
        """Seconds since the host started."""
        return time.monotonic()

    def wait_until(self, deadline_s: float) -> None:
        """Sleep until shortly before the deadline, then spin, yielding at each turn."""
        set_timer_slack()
        remaining_s = deadline_s - time.monotonic()
        while remaining_s > _SPIN_S:
            time.sleep(remaining_s - _SPIN_S)
            remaining_s = deadline_s - time.monotonic()
        while time.monotonic() < deadline_s:
            time.sleep(0)  # releases the GIL: other threads run on


def lower_priority() -> None:
    """Raise the nice value of this thread for good, so that others go first when cores are short.

    An emulated device computes for real in a fraction of its time; that must not delay messages of
    other emulated devices, which would have cores of their own.
    """
    if getattr(_thread, "has_low_priority", False):
        return
    _thread.has_low_priority = True
    with contextlib.suppress(
        AttributeError, OSError
    ):  # Linux only: elsewhere nice values belong to processes
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def set_timer_slack() -> None:
    """Set this thread's timer slack to 1 us (50 us by default), once per thread; Linux only."""
    if getattr(_thread, "has_slack", False):
        return
    _thread.has_slack = True
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_TIMERSLACK, _SLACK_NS, 0, 0, 0)
