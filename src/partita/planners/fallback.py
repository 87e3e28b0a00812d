"""What the requester goes on with alone when others are lost, loaded beside the plan.

Both lie in its memory at the same time, so that a loss takes no loading. The fallback is the plan's
own network, which answers the same, where there is room for it; else the network with all weights
and activations in bytes, on integer kernels, of which samples must tell the ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from partita.compile import build_layout, planned_graph
from partita.cost import MemoryUse
from partita.cost.memory import SESSION_BYTES, together
from partita.errors import InfeasibleError
from partita.exactness.accuracy import ask_judge
from partita.graph import Graph
from partita.graph.quantised import with_kernels
from partita.plan import Plan
from partita.planners.drafts.draft import whole_stages
from partita.planners.options import PlanOptions
from partita.planners.pricing.costs import Costs
from partita.planners.pricing.problem import Problem
from partita.planners.result import Result
from partita.quantisation import choose_bits, quantize
from partita.units import format_bytes

FindResult = Callable[[Costs], Result]
#: Of weights and activations: narrower codes lie in bytes in memory, too.
_BITS = 8


@dataclass(frozen=True)
class _Alone:
    """The whole network on the requester, and what that holds there."""

    plan: Plan
    use: MemoryUse


def find_with_fallback(cost: Costs, options: PlanOptions, find: FindResult) -> Result:
    """A plan with a fallback, for which its requester has room.

    Args:
        find: Plans for given costs.

    Raises:
        InfeasibleError: The requester may not compute all, or has not the memory.
        PlanError: The judge fails.
    """
    narrow = _alone(cost, _narrow(cost.graph, options), options)
    result = _find_in_rest(cost, narrow.use, find)
    graph, requester = planned_graph(cost.graph, result.plan), cost.cluster.requester
    layout = build_layout(graph, result.plan, cost.cluster)
    uses = [u for name, u in cost.of(graph).memory(layout).items() if name == requester]
    own = _alone(cost, graph, options)
    has = cost.cluster.device(requester).memory_bytes
    totals = [together([*uses, alone.use]).total for alone in (own, narrow)]
    if totals[1] > has:  # of a plan that computes nothing there a process is news
        raise _overfull(requester, totals[1], has)
    chosen = own if totals[0] <= has else narrow
    fallback = chosen.plan
    if options.judge is not None:
        accuracy = float(ask_judge(options.judge, fallback).mean())
        fallback = msgspec.structs.replace(fallback, accuracy=accuracy)
    return replace(result, plan=msgspec.structs.replace(result.plan, fallback=fallback))


def find_beside(cost: Costs, fallback: Plan, find: FindResult) -> Result:
    """A plan beside a fallback that is loaded already.

    Raises:
        InfeasibleError: There is none in the memory that is left.
    """
    graph = planned_graph(cost.graph, fallback)
    layout = build_layout(graph, fallback, cost.cluster)
    use = cost.of(graph).memory(layout)[cost.cluster.requester]
    return _find_in_rest(cost, use, find)


def _narrow(graph: Graph, options: PlanOptions) -> Graph:
    """The network in bytes on integer kernels; as it is where samples tell no ranges."""
    data = options.quantisation
    if data is None:
        return graph
    table = choose_bits(graph.base or graph, data.ranges, _BITS, _BITS, data.options)
    return with_kernels(quantize(graph, table), integer=True)


def _alone(cost: Costs, graph: Graph, options: PlanOptions) -> _Alone:
    """A network whole on the requester.

    Raises:
        InfeasibleError: It does not compute, or tensors must stay elsewhere.
    """
    requester = cost.cluster.requester
    if not cost.cluster.device(requester).computes:
        raise InfeasibleError(
            f"No fallback is possible: the requester '{requester}' does not compute.",
            subject=requester,
        )
    problem = Problem(cost if graph is cost.graph else cost.of(graph), options)
    outline = problem.outline
    elsewhere = {device for device in outline.pins.values() if device != requester}
    if elsewhere:
        raise InfeasibleError(
            f"No fallback is possible: a tensor must not leave device '{min(elsewhere)}', and the"
            f" requester '{requester}' is to go on alone.",
            subject=min(elsewhere),
        )
    plan = problem.plan(whole_stages(outline, 0, len(outline), requester), planner="fallback")
    return _Alone(plan, problem.cost.memory(problem.layout(plan))[requester])


def _find_in_rest(cost: Costs, use: MemoryUse, find: FindResult) -> Result:
    """A plan in the memory that a fallback on the requester leaves."""
    cluster = cost.cluster
    taken = use.fragments * SESSION_BYTES + use.weights + use.pieces + use.arena
    has = cluster.device(cluster.requester).memory_bytes
    if taken >= has:
        raise _overfull(cluster.requester, taken, has)
    try:
        return find(cost.on(cluster.with_memory(cluster.requester, has - taken)))
    except InfeasibleError as error:
        raise InfeasibleError(
            f"{error.message} The fallback takes {format_bytes(taken)} of the {format_bytes(has)}"
            f" of '{cluster.requester}': raise its memory, or plan without one.",
            subject=error.subject,
        ) from None


def _overfull(requester: str, needs: int, has: int) -> InfeasibleError:
    return InfeasibleError(
        f"No fallback is possible on device '{requester}': it needs {format_bytes(needs)}, device"
        f" has {format_bytes(has)}.",
        subject=requester,
    )
