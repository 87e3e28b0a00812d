"""One quantity that is watched: what was believed of it, what it measures, since when it is off."""

from __future__ import annotations

import math
from collections import deque
from statistics import median


class DriftDetector:
    """A rate or a slowness over time.

    Args:
        believed: What plans were priced with; above 0.

    Attributes:
        present: Median of the last window; ``believed`` while nothing was measured.
        seen_s: When it was measured last.
        since_s: Since when it has been off; None while it is not.
    """

    def __init__(self, believed: float) -> None:
        self.believed = believed
        self.present = believed
        self.seen_s = -math.inf
        self.since_s: float | None = None
        self._samples: deque[tuple[float, float]] = deque()
        self._confirmed = 0
        self._is_stale = False

    @property
    def is_unconfirmed(self) -> bool:
        """Whether it is off by one measurement only."""
        return self.since_s is not None and not self._confirmed

    def add(self, now_s: float, value: float) -> None:
        """Take a measurement; such as are not above 0 and finite say nothing."""
        if not 0 < value < math.inf:
            return
        self._samples.append((now_s, value))
        self.seen_s = now_s
        self._is_stale = True
        if self.since_s is not None:
            self._confirmed += 1

    def judge(self, now_s: float, threshold: float, window_s: float) -> None:
        """Say whether the quantity is off by more than ``threshold``, as a fraction.

        Once off, it is off until it is back within half of the threshold.
        """
        samples = self._samples
        while len(samples) > 1 and samples[0][0] < now_s - window_s:
            samples.popleft()
            self._is_stale = True
        if not self._is_stale:
            return
        self._is_stale = False
        self.present = median(value for _, value in samples)
        off = abs(math.log(self.present / self.believed))
        if self.since_s is None and off > math.log1p(threshold):
            self.since_s, self._confirmed = now_s, 0
        elif self.since_s is not None and off < math.log1p(threshold / 2):
            self.since_s = None

    def has_lasted(self, now_s: float, hold_s: float) -> bool:
        """Whether it has been off for so long, and was measured again meanwhile."""
        if self.since_s is None or (self.is_unconfirmed and hold_s > 0):
            return False
        return now_s - self.since_s >= hold_s

    def accept(self) -> None:
        """Believe what was measured."""
        self.believed, self.since_s = self.present, None
