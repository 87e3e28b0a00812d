"""Methods for long simulated runs: who searches, and what a search is charged."""

from __future__ import annotations

import time
from dataclasses import replace

from partita.adapting.finder import Find
from partita.cost import CostModel
from partita.execution import AdaptOptions
from partita.planners.find import find_plan
from partita.planners.options import PlanOptions
from partita.simulation import Method, Searched


def make_method(
    planner: str,
    *,
    options: PlanOptions | None = None,
    find: Find | None = None,
    adapt: AdaptOptions | None = None,
    search_s: float | None = None,
    name: str = "",
) -> Method:
    """A method for :func:`partita.simulation.simulate_adaptive`.

    Args:
        find: Searches in place of the planner with those options.
        adapt: When it plans again, and when it keeps the result.
        search_s: What a search is charged; None for what it takes.
        name: For tables; the planner's own by default.
    """
    options = options or PlanOptions()

    def search(cost: CostModel) -> Searched:
        began_s = time.monotonic()
        if find is not None:
            return Searched(find(cost), time.monotonic() - began_s)
        result = find_plan(cost, planner=planner, options=options)
        return Searched(result.plan, result.search_s)

    return Method(name or planner, search, search_s, adapt or AdaptOptions())


def take_every_plan(adapt: AdaptOptions | None = None) -> AdaptOptions:
    """Options of a method that never compares: it takes what its search gives."""
    return replace(adapt or AdaptOptions(), least_gain=float("-inf"), trial=0)
