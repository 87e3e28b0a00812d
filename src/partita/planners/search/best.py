"""The planner to use: nested searches on ever more devices, then local search on the exact cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import inf

from partita.errors import OverfullError, PlanError
from partita.planners.drafts.draft import Draft, is_allowed
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, PlannerCost, get_planner, planner_names, register
from partita.planners.search.exhaustive import Space
from partita.planners.search.further_rates import FurtherRates
from partita.planners.search.further_search import FurtherSearch
from partita.planners.search.memory_starts import memory_starts, sure_starts
from partita.planners.search.moves import prune
from partita.planners.search.nearness import bound_before, is_at
from partita.planners.search.nested_search import NestedSearch
from partita.planners.search.rate_search import is_at_bound, is_near_bound, search_rates
from partita.planners.simple.single import single_drafts
from partita.simulation import Until

#: Planners of these costs run for every network; others only where their space is this small.
ALWAYS: tuple[PlannerCost, ...] = ("cheap",)
SMALL_SPACE = 3000
#: Part of the time budget after which no other planner is asked; the search is cut short then.
STARTS_SHARE = 0.8
#: How much longer it takes to price the first division among all devices than each of them alone:
#: measured for Inception-v3 and DenseNet-201 on 8 and 16 devices.
_FIRST_DIVIDED = 6
#: The most of what time is left that is kept for the full price. Not tuned.
_MOST_RESERVED = 0.1
#: The part of the time that is kept for freeing memory: DenseNet-201 on 16 devices takes half a
#: second after a minute.
_FREED = 0.01
#: Methods asked before the search rather than after it, when its time may be over, and first of all
#: where no device holds the network: VGG-16 on eleven such boards answers 1.4 times as often by
#: even groups, which take 0.8 s, as by what the search finds in 15 s. Before cuts: MobileNet-v2 on
#: twelve boards of 14 MB answers 1.7 times as often by groups, which take 3 s, as by cuts in one.
_SOON = ("collaborative",)
#: The part of the time that these have on more devices than others are asked on. Not tuned.
_GROUPS_SHARE = 0.5
#: The most of what time is left that the search takes, so that in small budgets methods of the
#: literature have some. Not tuned.
_SEARCH_SHARE = 0.75
#: Methods asked last, as they take as long as all others together.
_SLOW = ("aofl", "deeperthings")
#: Devices up to which methods of the literature are asked, too. Not tuned.
_MOST_PUBLISHED = 12


@register("best", cost="search")
def plan_best(evaluator: Evaluator) -> Chosen:
    """The plan to use: searched on the best 2, 3... devices, each time from the plans before.

    Raises:
        OverfullError: No plan is found that fits in memory.
        InfeasibleError: No plan is possible.
    """
    axes, is_rate = evaluator.options.axes, evaluator.options.objective == "throughput"
    is_small = Space(evaluator).count(SMALL_SPACE) <= SMALL_SPACE
    singles = single_drafts(evaluator)
    is_tight = not _fits(evaluator, singles)
    filled = sure_starts(evaluator) if is_tight else []
    soon = _grouped(evaluator) if is_tight and is_rate else []
    cuts = list(_asked(evaluator, ["cut"])) if is_tight else []
    rates = search_rates(evaluator) if is_small or not is_tight else []
    others = [*singles, *cuts, *_others(evaluator, is_tight=is_tight)]
    if is_small and axes is None:
        with suppress(OverfullError):  # in quarters of channels, say: there are finer parts
            optimum = get_planner("exhaustive").choose(evaluator).draft
            known = [optimum, *others, *filled, *soon, *rates, *_published(evaluator, rates)]
            return Chosen(evaluator.best(known), "optimal")
    others = [draft for draft in others if is_allowed(draft, axes)]
    bound = bound_before(evaluator)  # now, so that it takes none of the time after the search
    known = [*others, *filled, *soon, *rates]
    if any(is_at(bound, evaluator, draft) for draft in evaluator.rank(known)):
        return Chosen(evaluator.best(known))
    if is_tight:  # then few pipelines of two ranges fit
        soon = soon or (_grouped(evaluator) if not _fits(evaluator, others) else [])
        rates = rates or search_rates(evaluator)
    if evaluator.budget.goes_on:
        _reserve_time(evaluator, [*others, *soon])
    if rates and is_near_bound(evaluator, rates[0]):
        known = [*others, *filled, *rates, *_published(evaluator, rates)]
        return Chosen(_go_on(evaluator, [evaluator.best(known), *rates], bound))
    has_time = not (filled and evaluator.budget.is_over)
    if has_time and not _fits(evaluator, [*others, *rates]):
        others += [draft for draft in memory_starts(evaluator) if is_allowed(draft, axes)]
    if not is_tight:
        soon = list(_published(evaluator, rates, _SOON))
    found = [*others, *filled, *rates, *soon]
    has_others = len(evaluator.devices) <= _MOST_PUBLISHED
    with evaluator.budget.within(_SEARCH_SHARE if has_others else 1.0):
        if not evaluator.budget.is_spent:
            found += NestedSearch(evaluator, others, bound).run()
    found += _published(evaluator, rates, beyond=() if not soon else _SOON)
    best = evaluator.best(found)
    best = evaluator.best([prune(best), best])
    return Chosen(_go_on(evaluator, [best, *found], bound))


def _reserve_time(evaluator: Evaluator, drafts: Sequence[Draft]) -> None:
    """Keep time for what comes after the search: to free what it remembers, and the full price.

    The price takes as much as a draft's takes now, a part of the time at most: under load the
    longest draft may take far longer than what is found. Late, finding that out takes more than is
    left.
    """
    budget = evaluator.budget
    budget.reserve(_FREED * max(0.0, budget.left_s))
    if budget.spent_share >= STARTS_SHARE:
        return
    began_s = budget.spent_s
    end_s = began_s + _MOST_RESERVED * budget.left_s
    with suppress(PlanError):
        plan = evaluator.problem.plan(max(drafts, key=len))
        evaluator.evaluate(plan, until=Until(is_over=lambda: budget.spent_s >= end_s))
    budget.reserve(budget.spent_s - began_s)


def _go_on(evaluator: Evaluator, found: Sequence[Draft], bound: float) -> Draft:
    """The first of some drafts, or what is better after all the time that a budget leaves."""
    if not evaluator.budget.goes_on or evaluator.budget.is_spent:
        return found[0]
    if evaluator.options.objective == "throughput":
        further = FurtherRates(evaluator, [found[0], *evaluator.rank(found)], bound).run()
    else:
        further = FurtherSearch(evaluator, evaluator.rank(found), bound).run()
    return evaluator.best([found[0], *further])


def _others(evaluator: Evaluator, *, is_tight: bool) -> Iterator[Draft]:
    """Yield what the planners of low cost choose; some may fail.

    None is asked where what a division takes to price for the first time may be more than is left.
    """
    began_s = evaluator.budget.spent_s
    evaluator.rank(single_drafts(evaluator))
    first_s = _FIRST_DIVIDED * (evaluator.budget.spent_s - began_s)
    names = [name for name in planner_names() if get_planner(name).cost in ALWAYS]
    if is_tight:
        names.remove("cut")  # which was asked
    if evaluator.budget.lacks(first_s):
        return
    for name in names:
        if not evaluator.budget.is_late(STARTS_SHARE):
            with suppress(PlanError):
                yield get_planner(name).choose(evaluator).draft


def _fits(evaluator: Evaluator, drafts: Iterable[Draft]) -> bool:
    """Whether one of some drafts is possible, memory counted, as far as there is time to tell."""
    for draft in dict.fromkeys(drafts):
        if evaluator.score(draft)[0] < inf:
            return True
        if evaluator.budget.is_long_over:
            break
    return False


def _grouped(evaluator: Evaluator) -> list[Draft]:
    """What is chosen by the method that looks at memory first: for no device holds it all.

    On many devices it takes longer than the search should wait for.
    """
    is_quick = len(evaluator.devices) <= _MOST_PUBLISHED
    with evaluator.budget.within(1.0 if is_quick else _GROUPS_SHARE):
        return list(_asked(evaluator, _SOON))


def _published(
    evaluator: Evaluator,
    rates: Sequence[Draft],
    only: Sequence[str] = (),
    beyond: Sequence[str] = (),
) -> Iterator[Draft]:
    """Yield what the methods of the literature choose, on so many devices as takes them seconds.

    They are not starts: of them the search learns nothing, but no plan is worse than theirs. Groups
    of even time take longest: they are asked for where throughput counts, or memory, as of devices
    that swap those swap less that share requests out among each other.

    Args:
        rates: What was found under load, the best first.
        only: Methods that are asked; without, all.
        beyond: Methods that are not, as they were before.
    """
    if evaluator.budget.is_late(1.0):
        return
    names = [name for name in planner_names() if get_planner(name).cost == "published"]
    names.remove("autosplit")  # what it has beyond `neurosurgeon` is not exact
    is_roomy = all(_fits(evaluator, [draft]) for draft in single_drafts(evaluator))
    if evaluator.options.objective != "throughput" and is_roomy and not evaluator.options.swap:
        names.remove("collaborative")
    if len(evaluator.devices) > _MOST_PUBLISHED or (rates and is_at_bound(evaluator, rates[0])):
        return
    wanted = [name for name in names if name not in beyond and (not only or name in only)]
    wanted.sort(key=_SLOW.__contains__)
    yield from _asked(evaluator, wanted)


def _asked(evaluator: Evaluator, names: Sequence[str]) -> Iterator[Draft]:
    """Yield what planners choose that is exact and allowed, until the time is over."""
    for name in names:
        if evaluator.budget.is_late(1.0):
            return
        with suppress(PlanError):
            chosen = get_planner(name).choose(evaluator)
            is_exact = chosen.draft and not chosen.bits
            if is_exact and is_allowed(chosen.draft, evaluator.options.axes):
                yield chosen.draft
