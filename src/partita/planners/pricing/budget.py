"""What a search may spend: evaluations and time."""

from __future__ import annotations

import time
from math import inf

from partita.planners.options import PlanOptions

#: Evaluations between looks at the clock: more overrun the budget further, fewer ask more often.
#: Not tuned.
_LOOK_EVERY = 20


class Budget:
    """Evaluations and seconds of this thread's computing, from now on.

    Attributes:
        most_evaluations: How many drafts a search may price; no limit where the options name none.
        was_cut: Whether time has ended or shortened a search.
    """

    def __init__(self, options: PlanOptions) -> None:
        self.most_evaluations = options.max_evaluations or inf
        self.evaluations = 0
        self.was_cut = False
        self._budget_s = max(options.budget_s, 1e-9)
        self._began_s = time.thread_time()
        self._next_look = 0

    @property
    def is_over(self) -> bool:
        """Whether the time is spent; the clock is asked once in a few evaluations."""
        if not self.was_cut and self.evaluations >= self._next_look:
            self._next_look = self.evaluations + _LOOK_EVERY
            self.is_late(1.0)
        return self.was_cut

    @property
    def is_spent(self) -> bool:
        """Whether evaluations or time are spent."""
        return self.evaluations >= self.most_evaluations or self.is_over

    def is_late(self, share: float) -> bool:
        """Whether more than a part of the time is spent; a search that leaves out is cut."""
        late = time.thread_time() - self._began_s > share * self._budget_s
        self.was_cut |= late
        return late
