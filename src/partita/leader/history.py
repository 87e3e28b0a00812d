"""What went on under one name so far, over all sessions that followed one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from partita.execution import Change

#: Changes of earlier sessions that are kept: more than viewers show, and no more with the months.
_KEPT = 32
#: Of these it is not known yet what comes of them.
_OPEN = ("searching", "switching")


@dataclass(frozen=True)
class History:
    """What went before a session: of those whose place it took, and how it took it.

    Attributes:
        answers: Requests that were answered.
        changes: The last ones, in order, on the leader's clock.
        outcomes: How many changes there were by their outcome, whether they are kept or not.
    """

    answers: int = 0
    changes: tuple[Change, ...] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)

    def with_session(self, answers: int, changes: Iterable[Change]) -> History:
        """The same with what one more session did."""
        counts, own = Counter(self.outcomes), list(changes)
        counts.update(change.outcome for change in own if change.outcome not in _OPEN)
        ordered = sorted([*self.changes, *own], key=lambda change: change.at_s)
        return History(self.answers + answers, tuple(ordered), counts)

    def counting(self, outcomes: Mapping[str, int]) -> History:
        """The same with changes that are only counted, by their outcomes."""
        return History(self.answers, self.changes, Counter(self.outcomes) + Counter(outcomes))

    def keep_last(self) -> History:
        """The same without changes that nobody looks at any more."""
        return History(self.answers, self.changes[-_KEPT:], self.outcomes)
