"""Drift of one quantity: its assumed value, its current one, and since when they differ."""

from __future__ import annotations

import math
from collections import deque
from statistics import median


class DriftDetector:
    """A rate or a slowness over time.

    Args:
        assumed: The value that plans were priced with; above 0.

    Attributes:
        current: Median of the last window; ``assumed`` while nothing was measured.
        seen_s: When it was measured last.
        since_s: Since when it has drifted; None while it has not.
    """

    def __init__(self, assumed: float) -> None:
        self.assumed = assumed
        self.current = assumed
        self.seen_s = -math.inf
        self.since_s: float | None = None
        self._samples: deque[tuple[float, float]] = deque()
        self._confirmed = 0
        self._is_stale = False

    @property
    def is_unconfirmed(self) -> bool:
        """Whether only one measurement says that it has drifted."""
        return self.since_s is not None and not self._confirmed

    def add(self, now_s: float, value: float) -> None:
        """Add a measurement; one that is not above 0 and finite is ignored."""
        if not 0 < value < math.inf:
            return
        self._samples.append((now_s, value))
        self.seen_s = now_s
        self._is_stale = True
        if self.since_s is not None:
            self._confirmed += 1

    def judge(self, now_s: float, threshold: float, window_s: float) -> None:
        """Decide whether the quantity has drifted by more than ``threshold``, as a fraction.

        Once drifted, it counts so until it is back within half of the threshold (hysteresis).
        """
        samples = self._samples
        while len(samples) > 1 and samples[0][0] < now_s - window_s:
            samples.popleft()
            self._is_stale = True
        if not self._is_stale:
            return
        self._is_stale = False
        self.current = median(value for _, value in samples)
        deviation = abs(math.log(self.current / self.assumed))
        if self.since_s is None and deviation > math.log1p(threshold):
            self.since_s, self._confirmed = now_s, 0
        elif self.since_s is not None and deviation < math.log1p(threshold / 2):
            self.since_s = None

    def has_lasted(self, now_s: float, hold_s: float) -> bool:
        """Whether it has drifted for so long, and was measured again meanwhile."""
        if self.since_s is None or (self.is_unconfirmed and hold_s > 0):
            return False
        return now_s - self.since_s >= hold_s

    def accept(self) -> None:
        """Assume the current value from now on."""
        self.assumed, self.since_s = self.current, None
