"""Search for throughput: chains, replicas and pipelines, each simulated under load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from partita.errors import InfeasibleError
from partita.planners.bounds.least_period import fluid_period_s
from partita.planners.drafts.draft import Draft, is_allowed
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.search.exhaustive import chain_drafts
from partita.planners.search.pipelines import (
    expected_s,
    fastest_first,
    pipeline_drafts,
    replica_drafts,
    whole_shares,
)

#: Networks of so many chains of ranges have all of them tried.
_MOST_CHAINS = 3000
#: Drafts that are simulated; of replicas on 16 devices all. Not tuned.
_MOST_REPLICAS, _MOST_PIPELINES = 16, 24
#: Slowest devices without which pipelines are tried, too, lest one more gives a worse plan; of each
#: number of devices so many. Not tuned.
_LEFT_OUT, _FEWER_PIPELINES = 3, 6
#: Of them, those whose shares are changed, and most changes of each.
_MOST_CHANGED, _MOST_CHANGES = 2, 40
#: Drafts that should take this much more than the best so far are not simulated.
_TRUST = 1.02
#: Totals of shares that are tried: with few in all, replicas that wait pass their turn on sooner.
_TOTALS = (12, 24, 48)
#: The search ends where at most this part could be gained; a change that gains less is none.
_NEAR, _LEAST_GAIN = 1.01, 1e-3
#: A draft this near the bound was improved by no other search on VGG-16, MobileNet-v2 and ResNet-50
#: with 4 to 12 unequal devices, where that took ten times as long.
_NEAR_ENOUGH = 1.1


def search_rates(evaluator: Evaluator) -> list[Draft]:
    """Drafts simulated under load, the best first; ends near the bound.

    Nothing where they cannot help: for another objective, one request at a time, or pinned layers.
    """
    options = evaluator.options
    if options.objective != "throughput" or options.in_flight < 2 or evaluator.outline.pins:
        return []
    return _RateSearch(evaluator).run()


def is_near_bound(evaluator: Evaluator, draft: Draft) -> bool:
    """Whether other searches would gain nothing over a draft under load."""
    return evaluator.judge(draft)[0] <= fluid_period_s(evaluator) * _NEAR_ENOUGH


def is_at_bound(evaluator: Evaluator, draft: Draft) -> bool:
    """Whether no plan at all answers noticeably more often than a draft under load."""
    return evaluator.judge(draft)[0] <= fluid_period_s(evaluator) * _NEAR


class _RateSearch:
    """Judges drafts until one is near the bound, or the evaluations or the time are spent."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._judged: dict[Draft, float] = {}

    def run(self) -> list[Draft]:
        """The drafts that were judged, the best first."""
        evaluator = self._evaluator
        chains = chain_drafts(evaluator, _MOST_CHAINS)
        with suppress(InfeasibleError):
            self._judge([evaluator.best(evaluator.rank(chains), most_judged=len(chains))])
        replicas = sorted(replica_drafts(evaluator), key=lambda d: expected_s(evaluator, d))
        self._judge(replicas[:_MOST_REPLICAS])
        order = fastest_first(evaluator)
        for count in range(len(order), max(1, len(order) - 1 - _LEFT_OUT), -1):
            if self._is_over:
                break
            most = _MOST_PIPELINES if count == len(order) else _FEWER_PIPELINES
            pipelines = pipeline_drafts(evaluator.among(order[:count]), most)
            self._judge(filter(self._is_promising, pipelines))
        for draft in self._best()[:_MOST_CHANGED]:
            self._improve(draft)
        return self._best()

    @property
    def _is_over(self) -> bool:
        if not self._judged:
            return False  # one is judged, however late it is
        if self._evaluator.budget.is_spent:
            return True
        return min(self._judged.values()) <= fluid_period_s(self._evaluator) * _NEAR

    def _best(self) -> list[Draft]:
        return sorted(self._judged, key=self._evaluator.judge)

    def _judge(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            if self._is_over:
                break
            if is_allowed(draft, self._evaluator.options.axes):
                self._judged[draft] = self._evaluator.judge(draft)[0]

    def _is_promising(self, draft: Draft) -> bool:
        """Whether a draft may be better than all so far: it seldom takes less than expected."""
        least_s = min(self._judged.values(), default=float("inf"))
        return expected_s(self._evaluator, draft) <= least_s * _TRUST

    def _improve(self, draft: Draft) -> None:
        """Change shares while that helps."""
        changes = _other_totals(draft)
        for _ in range(_MOST_CHANGES):
            changed = next(changes, None)
            if changed is None or self._is_over:
                break
            if not self._is_promising(changed):
                continue
            self._judge([changed])
            if self._judged.get(changed, float("inf")) < self._judged[draft] * (1 - _LEAST_GAIN):
                draft, changes = changed, _other_shares(changed)


def _other_totals(draft: Draft) -> Iterator[Draft]:
    """Yield the draft with coarser and finer shares, then with others by one."""
    for total in _TOTALS:
        yield tuple(
            replace(stage, shares=whole_shares(stage.shares, total)) if stage.shares else stage
            for stage in draft
        )
    yield from _other_shares(draft)


def _other_shares(draft: Draft) -> Iterator[Draft]:
    """Yield the draft with one request more or less for one replica."""
    for index, stage in enumerate(draft):
        for place in range(len(stage.shares)):
            for step in (1, -1):
                shares = list(stage.shares)
                shares[place] += step
                if shares[place] > 0:
                    changed = replace(stage, shares=tuple(shares))
                    yield (*draft[:index], changed, *draft[index + 1 :])
