"""What a search may spend: evaluations and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from partita.planners.options import PlanOptions

#: Seconds beyond the time in which bounds may still be looked for: with a budget, which is a
#: promise, and else.
_GRACE_S, _USUAL_GRACE_S = 0.1, 5.0


def is_never_over() -> bool:
    """For a search that no time ends."""
    return False


class Budget:
    """Evaluations and seconds by the clock on the wall, from now on.

    Args:
        options: Theirs are the limits.
        clock: Seconds since any moment.

    Attributes:
        most_evaluations: How many drafts a search may price; no limit where the options name none.
        was_cut: Whether time has ended or shortened a search.
        goes_on: Whether a search that is done goes on while something is left.
    """

    def __init__(self, options: PlanOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.most_evaluations = options.max_evaluations or inf
        self.evaluations = 0
        self.was_cut = self._is_cut = False
        self.goes_on = options.budget_s is not None
        self._most_s = options.most_s if options.budget_s is None else options.budget_s
        self._clock = clock
        self._began_s = clock()
        self._reserved_s = 0.0
        self._shifted_s = 0.0
        #: When a value was reached that is better than all before, and the value.
        self._gains: list[tuple[float, float]] = []

    @property
    def spent_s(self) -> float:
        """Seconds since the search began."""
        return self._clock() - self._began_s

    @property
    def spent_share(self) -> float:
        """The part of the time that is spent."""
        return self.spent_s / max(self._most_s, 1e-9)

    @property
    def left_s(self) -> float:
        """Seconds until the time is spent; less than nothing afterwards."""
        return self._most_s - self.spent_s

    @property
    def is_over(self) -> bool:
        """Whether the time is spent."""
        return self._is_cut or self.is_late(1.0)

    @property
    def is_spent(self) -> bool:
        """Whether evaluations or time are spent."""
        return self.evaluations >= self.most_evaluations or self.is_over

    def reserve(self, seconds: float) -> None:
        """Let the time end so much sooner, for what is done after a search."""
        self._shift(-seconds)
        self._reserved_s += seconds

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let what is done take none of the usual search's time, as judging a plan.

        A budget is a promise, and counts it.
        """
        began_s = self.spent_s
        try:
            yield
        finally:
            if not self.goes_on:
                self._shift(self.spent_s - began_s)

    def _shift(self, seconds: float) -> None:
        self._most_s += seconds
        self._shifted_s += seconds

    @property
    def is_used_up(self) -> bool:
        """Whether of a budget nothing is left, of what was reserved neither."""
        return self.goes_on and self.left_s + self._reserved_s <= 0

    @property
    def given_s(self) -> float:
        """The seconds that there were, those that are kept for after the search among them."""
        return max(0.0, self._most_s + self._reserved_s)

    def is_late(self, share: float) -> bool:
        """Whether more than a part of the time is spent; a search that leaves out is cut."""
        return self._note_cut(self.spent_s >= share * self._most_s)

    def lacks(self, seconds: float) -> bool:
        """Whether less than some seconds are left; a search that leaves out is cut."""
        return self._note_cut(self.left_s < seconds)

    def _note_cut(self, late: bool) -> bool:
        self._is_cut |= late
        self.was_cut |= late
        return late

    @contextmanager
    def within(self, share: float) -> Iterator[None]:
        """Let the time end after a part of what is left, for one method of several."""
        most_s, is_cut, shifted_s = self._most_s, self._is_cut, self._shifted_s
        self._most_s -= (1 - share) * max(0.0, self.left_s)
        try:
            yield
        finally:
            self._most_s, self._is_cut = most_s + self._shifted_s - shifted_s, is_cut

    @property
    def left_for_bounds_s(self) -> float:
        """Seconds until the time is spent, and what is allowed beyond it for bounds."""
        return self.left_s + (_GRACE_S if self.goes_on else _USUAL_GRACE_S)

    @property
    def is_long_over(self) -> bool:
        """Whether all of that is spent, too."""
        return self.left_for_bounds_s <= 0

    def note(self, value: float) -> None:
        """Note what the objective of a plan is, if it is the best so far."""
        if value < (self._gains[-1][1] if self._gains else inf):
            self._gains.append((self.spent_s, value))

    def last_half_gain(self) -> float | None:
        """The part by which the last half of the time until now made the best value smaller.

        None where nothing was known at half time.
        """
        half_s = self.spent_s / 2
        before = [value for at_s, value in self._gains if at_s <= half_s]
        return 1 - self._gains[-1][1] / before[-1] if before and before[-1] > 0 else None
