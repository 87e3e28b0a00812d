"""Searches with the options that a running plan was made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from partita.cost import CostModel
from partita.exactness.accuracy import Judge
from partita.plan import Plan
from partita.planners.fallback import find_beside
from partita.planners.find import find_plan
from partita.planners.options import bound_errors, options_of, restrict_devices, succeed
from partita.quantisation import QuantisationData

Find = Callable[[CostModel], Plan]


def make_finder(
    plan: Plan,
    planner: str = "best",
    most_s: float = 3.0,
    *,
    quantisation: QuantisationData | None = None,
    judge: Judge | None = None,
) -> Find:
    """A search with the options that ``plan`` was made with, less lost devices.

    It keeps the plan's fallback, and its bits, unless samples let it choose others.

    Args:
        plan: Its objective, seed, and all that :class:`partita.plan.Asked` keeps.
        planner: One of :func:`partita.planners.planner_names`.
        most_s: Seconds that a search may take.
        quantisation: What samples say of the network, for planners that choose bits: accurate
            enough is what no more errors sum up in than in the plan's bits.
        judge: Says instead what is accurate enough, by the drop that the plan was asked for.
    """
    asked = replace(options_of(plan, most_s=most_s), quantisation=quantisation, judge=judge)

    def find(cost: CostModel) -> Plan:
        options = restrict_devices(asked, cost.cluster.names)
        if quantisation is not None:
            cost = cost.of(cost.graph.base or cost.graph)
            if judge is None:
                options = bound_errors(options, quantisation.error_of(cost.graph, plan.bits))
        search, beside = partial(find_plan, planner=planner, options=options), plan.fallback
        try:
            found = search(cost) if beside is None else find_beside(cost, beside, search)
        finally:
            cost.forget()  # a leader searches again and again
        return succeed(plan, found.plan)

    return find
