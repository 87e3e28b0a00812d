"""Counts that say how a run went, however long it was, in memory that does not grow with it."""

from __future__ import annotations

from math import exp, log

#: Depths of queues are counted as 0, 1, 2-3, 4-7 and so on; the last place takes all that is deeper
#: than any queue becomes with the 1000 requests that may be in flight.
DEPTHS = 12
#: Durations within 4 % are counted together, so that a quantile is off by 2 % at most.
_WIDTH = log(1.04)
#: Shorter than a clock's tick, and longer than a step may take: 705 counts between them.
_LEAST_S, _MOST_S = 1e-6, 1e6


def depth_place(depth: int) -> int:
    """The place of a queue's depth among :data:`DEPTHS` counts.

    >>> [depth_place(depth) for depth in (0, 1, 2, 3, 4, 10**6)]
    [0, 1, 2, 2, 3, 11]
    """
    return min(depth.bit_length(), DEPTHS - 1)


def depth_name(place: int) -> str:
    """The depths that a place counts, for people.

    >>> [depth_name(place) for place in (0, 1, 2, 11)]
    ['0', '1', '2–3', '1024 and more']
    """
    if place < 2:
        return str(place)
    least = 1 << (place - 1)
    return f"{least} and more" if place == DEPTHS - 1 else f"{least}–{2 * least - 1}"


class TimeHistogram:
    """Durations, counted by their size.

    Attributes:
        count: How many there were.
    """

    __slots__ = ("_counts", "count")

    def __init__(self) -> None:
        self.count = 0
        self._counts: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """Count one duration."""
        place = round(log(min(max(seconds, _LEAST_S), _MOST_S)) / _WIDTH)
        self._counts[place] = self._counts.get(place, 0) + 1
        self.count += 1

    def quantile_s(self, fraction: float) -> float:
        """The duration that ``fraction`` of them do not exceed (nearest rank); 0 of none."""
        counts = sorted(self._counts.copy().items())
        left = fraction * sum(count for _, count in counts)
        for place, count in counts:
            left -= count
            if left <= 1e-9:
                return exp(place * _WIDTH)
        return 0.0
