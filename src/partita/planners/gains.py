"""What a purchase, faster links or compression would gain: each planned for anew and simulated.

Every change is planned for with an equal part of the time, by the same method. A search may miss
what is there: so that none comes out worse than nothing, the plan of today counts for each change
under which it can still run. How much a change can gain at most follows from the lower bound of
its own search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from partita.cost import CostModel
from partita.errors import InfeasibleError, PlanError
from partita.plan import Plan
from partita.planners.find import find_plan
from partita.planners.options import PlanOptions, limit_only, options_of
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.objective import rate
from partita.planners.result import Estimate, Result
from partita.planners.variations import Variation, usual_variations

#: Seconds of all searches together where the options name no budget. Not tuned.
MOST_S = 60.0
#: Stands among changes for none: what a search alone gains over a plan that was given.
PLANNED_ANEW = "nothing changed, planned anew"


@dataclass(frozen=True)
class Outcome:
    """What came of a change.

    Attributes:
        plan: The best one known with it; None where there is none.
        estimate: What it costs.
        gain: What the objective makes small, as a multiple of what it is with the change: 2 where
            it is half; 0 without a plan.
        most_gain: No plan has a larger gain; infinite where no bound is known.
        fault: Why there is no plan; empty where there is one.
    """

    variation: Variation
    plan: Plan | None
    estimate: Estimate | None
    gain: float
    most_gain: float
    fault: str = ""


@dataclass(frozen=True)
class WhatIf:
    """Changes by what they gain, the most first.

    Attributes:
        plan: What they are compared with.
        estimate: What that costs.
        outcomes: Where the plan was given, planning anew for how things are is one of them.
    """

    plan: Plan
    estimate: Estimate
    outcomes: tuple[Outcome, ...]


def what_if(
    cost: CostModel,
    plan: Plan | None = None,
    *,
    variations: Sequence[Variation] | None = None,
    options: PlanOptions | None = None,
    planner: str = "best",
    progress: Callable[[str], None] = lambda name: None,
) -> WhatIf:
    """What each change gains over a plan for how things are.

    Args:
        cost: What everything costs now.
        plan: The plan of now. None plans for it, which counts as one more search.
        variations: The changes; by default those of :func:`usual_variations`.
        options: What is asked of the planner now, by default what the plan was made with; their
            budget is that of all searches together, :data:`MOST_S` where they have none.
        planner: Makes all plans.
        progress: Called with the name of each change before its search.

    Raises:
        InfeasibleError: There is no plan for how things are.
        PlanError: The planner is unknown, or an option is wrong.
    """
    if options is None:
        options = PlanOptions() if plan is None else options_of(plan)
    if variations is None:
        variations = usual_variations(cost, options)
    search = _Search(planner, MOST_S if options.budget_s is None else options.budget_s)
    to_come = len(variations) + 1
    if plan is None:
        progress(PLANNED_ANEW)
        plan = search.find(cost, options, to_come).plan
        to_come -= 1
    else:
        variations = (Variation(PLANNED_ANEW, cost, options), *variations)
    estimate = Evaluator(cost.of_plan(plan), options).evaluate(plan)
    today = _Today(plan, _value(estimate, options, cost))
    outcomes = []
    for number, variation in enumerate(variations):
        progress(variation.name)
        outcomes.append(search.judge(variation, today, to_come - number))
    outcomes.sort(key=lambda outcome: -outcome.gain)
    return WhatIf(plan, estimate, tuple(outcomes))


@dataclass(frozen=True)
class _Today:
    """The plan of now, and what the objective makes of it."""

    plan: Plan
    value: float


class _Search:
    """Searches that share one time."""

    def __init__(self, planner: str, most_s: float) -> None:
        self._planner = planner
        self._end_s = time.monotonic() + most_s

    def find(self, cost: CostModel, options: PlanOptions, left: int) -> Result:
        """A plan, by a search with an equal part of the time of those that are left."""
        share_s = max(0.0, self._end_s - time.monotonic()) / left
        options = limit_only(replace(options, budget_s=share_s))
        return find_plan(cost, planner=self._planner, options=options)

    def judge(self, variation: Variation, today: _Today, left: int) -> Outcome:
        """What comes of a change."""
        cost, options = variation.cost, variation.options
        known = [(today.plan, estimate) for estimate in _price(cost, options, today.plan)]
        bound, fault = 0.0, ""
        try:
            found = self.find(cost, options, left)
            known.append((found.plan, found.estimate))
            bound = _bound(found, options)
        except InfeasibleError as error:
            fault = error.message
        if not known:
            return Outcome(variation, None, None, 0.0, inf, fault)
        plan, estimate = min(known, key=lambda pair: _value(pair[1], options, cost))
        gain = today.value / _value(estimate, options, cost)
        most = max(gain, today.value / bound) if bound > 0 else inf
        return Outcome(variation, plan, estimate, gain, most)


def _price(cost: CostModel, options: PlanOptions, plan: Plan) -> list[Estimate]:
    """What a plan costs under other conditions; empty where it cannot run there."""
    try:
        return [Evaluator(cost.of_plan(plan), options).evaluate(plan)]
    except PlanError:
        return []


def _value(estimate: Estimate, options: PlanOptions, cost: CostModel) -> float:
    """What the objective makes small."""
    return rate(estimate, options.objective, cost.cluster)[0]


def _bound(found: Result, options: PlanOptions) -> float:
    """What no plan goes below; 0 where nothing is known."""
    if options.objective == "latency":
        return found.lower_bound_s
    return (found.least_period_s or 0.0) if options.objective == "throughput" else 0.0
