"""The offset of a worker's clock from the leader's."""

from __future__ import annotations

import time
from collections.abc import Callable

from partita.host import clock_origin
from partita.leader.worker_group import WorkerGroup
from partita.worker.messages import Clock, OfEpoch

#: A few milliseconds in all; of ten round trips one is seldom delayed.
_ROUNDS = 10


def estimate_offset(
    read_s: Callable[[], float], now_s: Callable[[], float] = time.monotonic, rounds: int = _ROUNDS
) -> float:
    """The seconds to add to a worker's time to get the leader's.

    The reading is taken to lie in the middle of the quickest of several round trips, as in NTP:
    the error is at most half of that trip.

    Args:
        read_s: Asks the worker for its clock, in seconds.
        now_s: The leader's clock.
        rounds: Number of round trips.

    >>> ticks = iter([1.0, 3.0])
    >>> estimate_offset(lambda: 12.0, lambda: next(ticks), rounds=1)
    -10.0
    """
    trips = []
    for _ in range(rounds):
        start_s = now_s()
        theirs_s = read_s()
        end_s = now_s()
        trips.append((end_s - start_s, (start_s + end_s) / 2 - theirs_s))
    return min(trips)[1]


def measure_offset(group: WorkerGroup, device: str) -> float:
    """The seconds to add to the clock of ``device`` to get the leader's; 0 on one machine.

    There it is one clock, and an estimate would be off by what a busy machine delays messages.
    """

    def read() -> Clock:
        return group.ask(device, "clock", OfEpoch(0), Clock)

    origin = clock_origin()
    return 0.0 if origin and read().origin == origin else estimate_offset(lambda: read().now_s)
