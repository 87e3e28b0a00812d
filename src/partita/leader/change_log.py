"""The changes of a session that are over: the last ones, and how many there were before."""

from __future__ import annotations

import threading
from collections import Counter, deque

from partita.execution import Change

#: Changes that a report lists. A service that runs for months has more, which are only counted.
MOST_CHANGES = 1000


class ChangeLog:
    """What came of searches and recoveries.

    Attributes:
        last: The last ones, in the order in which they were added.
        forgotten: How many earlier ones there were, by their outcomes.
        lock: To be held by who adds, and by who reads more than this log at one time.
    """

    def __init__(self) -> None:
        self.last: deque[Change] = deque()
        self.forgotten = Counter[str]()
        self.lock = threading.Lock()

    def add(self, change: Change) -> None:
        """Take one more."""
        self.last.append(change)
        while len(self.last) > MOST_CHANGES:
            self.forgotten[self.last.popleft().outcome] += 1
