"""A clock by which the silence of others is counted: it stands still while its owner does."""

from __future__ import annotations


class AwakeClock:
    """Seconds for which its owner ran and took what came, as far as its ticks say.

    Ticks go the way of what is listened for, behind what came before them. Where they are late,
    because the process, its machine or the thread that takes them was held up, others may have
    spoken all the same: that time is nobody's silence.

    Args:
        most_s: What counts of the time since the last tick at most; some intervals of ticks.
        now_s: The time now, on a clock that never goes back.

    >>> clock = AwakeClock(1.0, now_s=5.0)
    >>> clock.tick(5.5)
    >>> clock.tick(9.0)
    >>> clock.read(9.25)
    1.75
    """

    def __init__(self, most_s: float, now_s: float) -> None:
        self._most_s = most_s
        self._counted_s, self._last_s = 0.0, now_s

    def tick(self, now_s: float) -> None:
        """Count the time since the last tick."""
        self._counted_s, self._last_s = self.read(now_s), now_s

    def read(self, now_s: float) -> float:
        """The seconds that are counted by now."""
        return self._counted_s + min(now_s - self._last_s, self._most_s)
