"""Failures of steps, which wait until it is known whether a lost device is behind them."""

from __future__ import annotations

import time
from collections import deque

from partita.fabric import Failure
from partita.leader.worker_group import WorkerGroup
from partita.naming import is_endpoint

#: A failure may follow from a lost device: a closed connection is noticed at once, its loss by the
#: network within this time. With silence, statistics and one check it stays within 3 s.
_GRACE_S = 0.3
#: A broken link may follow from a lost device, too, whose silence takes its time, and a few checks;
#: heartbeats of both ends, two intervals later, say sooner that none is lost.
_LINK_GRACE_S = 0.3
_ALIVE_S = 0.5


class Failures:
    """What workers reported, each with when.

    Args:
        silence_s: A worker without a heartbeat for so long is lost.
    """

    def __init__(self, group: WorkerGroup, silence_s: float) -> None:
        self._group, self._silence_s = group, silence_s
        self._told: deque[tuple[Failure, float]] = deque()

    def add(self, failure: Failure) -> None:
        """Take one in; from any thread."""
        self._told.append((failure, time.monotonic()))

    def clear(self) -> None:
        """Forget all: what they are about is over."""
        self._told.clear()

    def take(self) -> list[Failure]:
        """Those that turn out to follow from no loss, in order."""
        taken = []
        for _ in range(len(self._told)):
            failure, told_s = self._told.popleft()
            if self._may_follow(failure, told_s):
                self._told.append((failure, told_s))
            else:
                taken.append(failure)
        return taken

    def _may_follow(self, failure: Failure, told_s: float) -> bool:
        """Whether a failure may still turn out to follow from the loss of a device."""
        waited_s = time.monotonic() - told_s
        if not failure.peer or is_endpoint(failure.peer):
            return waited_s < _GRACE_S
        ends = (failure.device, failure.peer)
        if self._group.beats.have_beaten(ends, told_s + _ALIVE_S):
            return False
        return waited_s < self._silence_s + _LINK_GRACE_S
