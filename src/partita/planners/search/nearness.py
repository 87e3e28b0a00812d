"""How near its bound a plan must be for searches to end."""

from __future__ import annotations

from partita.planners.bounds.least_period import fluid_period_s, least_period_s
from partita.planners.bounds.lower_bound import lower_bound_s
from partita.planners.drafts.draft import Draft
from partita.planners.pricing.evaluator import Evaluator

#: A plan within this factor of its bound is at it: a search simulates plans under load until two
#: looks agree to half a percent, so that what could still be gained is less than it can tell.
NEAR = 1.005


def bound_before(evaluator: Evaluator) -> float:
    """What no plan's objective is below, as far as that is worth its time before a search.

    For latency within a budget alone, of which searches use all; 0 for what has no bound.
    """
    objective, goes_on = evaluator.options.objective, evaluator.budget.goes_on
    if objective == "throughput":
        if not goes_on:
            return fluid_period_s(evaluator)
        return least_period_s(evaluator, lower_bound_s(evaluator))
    return lower_bound_s(evaluator) if goes_on and objective == "latency" else 0.0


def is_at(bound: float, evaluator: Evaluator, draft: Draft) -> bool:
    """Whether a draft is at a bound: nothing simulates it under load that cannot be."""
    most = bound * NEAR
    return evaluator.score(draft)[0] <= most and evaluator.judge(draft)[0] <= most
