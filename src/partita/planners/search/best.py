"""The planner to use: nested searches on ever more devices, then local search on the exact cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from math import inf

from partita.errors import OverfullError, PlanError
from partita.planners.bounds.least_memory import lacks_memory
from partita.planners.drafts.draft import Draft, is_allowed
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, PlannerCost, get_planner, planner_names, register
from partita.planners.result import Status
from partita.planners.search.exhaustive import Space
from partita.planners.search.memory_starts import memory_starts
from partita.planners.search.moves import prune
from partita.planners.search.nested_search import NestedSearch
from partita.planners.search.rate_search import is_near_bound, search_rates
from partita.planners.simple.single import single_drafts

#: Planners of these costs run for every network; others only where their space is this small.
ALWAYS: tuple[PlannerCost, ...] = ("cheap",)
SMALL_SPACE = 3000
#: Part of the time budget after which no other planner is asked; the search is cut short then.
STARTS_SHARE = 0.8


@register("best", cost="search")
def plan_best(evaluator: Evaluator) -> Chosen:
    """The plan to use: searched on the best 2, 3... devices, each time from the plans before.

    Raises:
        OverfullError: No plan is found that fits in memory.
        InfeasibleError: No plan is possible.
    """
    axes = evaluator.options.axes
    is_small = Space(evaluator).count(SMALL_SPACE) <= SMALL_SPACE
    rates = search_rates(evaluator)
    if is_small and axes is None:
        with suppress(OverfullError):  # in quarters of channels, say: there are finer parts
            optimum = get_planner("exhaustive").choose(evaluator).draft
            return Chosen(evaluator.best([optimum, *_others(evaluator), *rates]), "optimal")
    others = [draft for draft in _others(evaluator) if is_allowed(draft, axes)]
    if rates and is_near_bound(evaluator, rates[0]):
        return Chosen(evaluator.best([*others, *rates]))
    if all(evaluator.score(draft)[0] == inf for draft in (*others, *rates)):
        others += [draft for draft in memory_starts(evaluator) if is_allowed(draft, axes)]
        if lacks_memory(evaluator, axes):
            return Chosen(evaluator.best(others))
    best = evaluator.best([*others, *rates, *NestedSearch(evaluator, others).run()])
    best = evaluator.best([prune(best), best])
    status: Status = "cut short" if evaluator.budget.was_cut else "heuristic"
    return Chosen(best, status)


def _others(evaluator: Evaluator) -> Iterator[Draft]:
    """Yield single devices and what the planners of low cost choose; some may fail."""
    yield from single_drafts(evaluator)
    for name in planner_names():
        method = get_planner(name)
        if method.cost in ALWAYS and not evaluator.budget.is_late(STARTS_SHARE):
            with suppress(PlanError):
                yield method.choose(evaluator).draft
