"""The coarsest plan among those that are nearly as good as the best one found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from operator import itemgetter

from partita.planners.drafts.draft import Draft, is_allowed, whole_stages
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.objective import RankKey
from partita.planners.search.local_search import LocalSearch
from partita.planners.search.moves import Moves, prune
from partita.planners.simple.rows import device_speeds

#: How much more than the best plan found a simpler one may cost, in what the objective measures:
#: about what predictions are off by.
_MOST_LOSS = 0.05


#: Of changes that cost more than that but at most this part more, the rows are moved; so many of
#: them, with so many drafts. Not tuned.
_MENDED_LOSS = 0.25
_MENDED = 6
_MENDED_DRAFTS = 600


def simplify(evaluator: Evaluator, best: Draft) -> Draft:
    """The draft of the fewest stages, then fragments, that costs at most 5 % more than ``best``.

    Begins with the coarsest draft that the search has priced, and with ``best``; then joins and
    moves stages as long as the limit and the time allow.
    """
    coarsening = _Coarsening(evaluator, (1 + _MOST_LOSS) * evaluator.score(best)[0])
    known = min(evaluator.priced(coarsening.limit), key=_coarseness, default=best)
    ends = [coarsening.run(draft) for draft in dict.fromkeys((best, known))]
    # Under load the search has seen what drafts are not below.
    most = (1 + _MOST_LOSS) * evaluator.judge(best)[0]
    kept = [draft for draft in ends if evaluator.judge(draft)[0] <= most] or [best]
    return min(kept, key=lambda draft: (_coarseness(draft), evaluator.score(draft)))


def _coarseness(draft: Draft) -> tuple[int, int]:
    """How many stages a draft has, and how many fragments at most."""
    fragments = sum(len(stage.devices) * (3 if stage.edge else 1) for stage in draft)
    return len(draft), fragments


class _Coarsening:
    """Makes drafts coarser within a limit of the objective.

    Args:
        evaluator: Prices them.
        limit: Most that they may cost.
    """

    def __init__(self, evaluator: Evaluator, limit: float) -> None:
        self.limit = limit
        self._evaluator = evaluator
        options = evaluator.options
        speeds = device_speeds(evaluator)
        self._moves = Moves(evaluator.outline, evaluator.devices, speeds, options.axes)
        self._search = LocalSearch(evaluator, self._moves)

    def run(self, draft: Draft) -> Draft:
        """The draft after the coarsest change within the limit, again and again."""
        draft = prune(draft)
        while not self._evaluator.budget.is_over:
            changes = self._changes(draft)
            within = [change for change in changes if change[1].score[0] <= self.limit]
            if within:
                draft = min(within, key=itemgetter(0, 1))[2]
                continue
            mended = self._mend([c for c in changes if c[0][0] < len(draft)])
            if mended is None:
                break
            draft = mended
        return draft

    def _changes(self, draft: Draft) -> list[tuple[tuple[int, int], RankKey, Draft]]:
        """What is coarser than a draft and not much dearer, with how coarse and how dear."""
        most = (1 + _MENDED_LOSS) * self.limit
        changes = []
        for other in dict.fromkeys((*self._jumps(draft), *self._moves.structural(draft))):
            if _coarseness(other) < _coarseness(draft):
                rank = self._evaluator.trial(other, most)
                if rank is not None and rank.score[0] <= most:
                    changes.append((_coarseness(other), rank, other))
        return changes

    def _mend(self, changes: list[tuple[tuple[int, int], RankKey, Draft]]) -> Draft | None:
        """The best of some changes after rows were moved, if that is within the limit."""
        changes.sort(key=itemgetter(1))
        racing = [draft for _, _, draft in changes[:_MENDED]]
        for draft in self._search.successive_halving(racing, _MENDED_DRAFTS, 1):
            if self._evaluator.score(draft)[0] <= self.limit:
                return draft
        return None

    def _jumps(self, draft: Draft) -> Iterator[Draft]:
        """Yield the draft without edges, and such that one device does what some stages did."""
        yield tuple(replace(stage, edge=0) for stage in draft)
        outline, axes = self._evaluator.outline, self._evaluator.options.axes
        for first, last in combinations(range(len(draft) + 1), 2):
            for device in self._evaluator.devices:
                whole = whole_stages(outline, draft[first].start, draft[last - 1].stop, device)
                changed = (*draft[:first], *whole, *draft[last:])
                if is_allowed(changed, axes):
                    yield changed
