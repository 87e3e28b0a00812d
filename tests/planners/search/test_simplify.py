"""The preference for few stages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partita.compile import check_plan
from partita.plan import Plan
from partita.planners import DraftStage, Evaluator, Objective, PlanOptions, find_plan
from partita.planners.search.simplify import simplify
from tests.planners.fakes import conv, make_chain, make_cost, make_gated, make_graph

OPTIONS = PlanOptions(max_evaluations=1500)


def _size(plan: Plan) -> tuple[int, int]:
    """Return how many stages and shards a plan has."""
    return len(plan.stages), sum(len(stage.shards) + len(stage.merge) for stage in plan.stages)


@pytest.mark.parametrize("objective", ["latency", "throughput", "memory", "energy"])
def test_a_simple_plan_is_coarser_and_nearly_as_good(objective: Objective) -> None:
    """It costs at most 5 % more, never has more stages, and keeps the rules."""
    for graph in (make_chain(6, seed=1), make_gated()):
        cost = make_cost(graph, 1e7, 2e7, 1.5e7, bandwidth=3e7, overhead_s=1e-6)
        options = replace(OPTIONS, objective=objective, max_evaluations=300)
        best = find_plan(cost, options=options)
        simple = find_plan(cost, options=replace(options, simple=True))
        check_plan(graph, simple.plan, cost.cluster)
        assert _size(simple.plan) <= _size(best.plan)
        ours, theirs = (
            {
                "latency": result.latency_s,
                "throughput": result.estimate.period_s,
                "memory": max(result.estimate.memory_bytes.values()),
                "energy": result.estimate.energy_joules,
            }[objective]
            for result in (simple, best)
        )
        assert ours <= 1.05 * theirs * (1 + 1e-9)


def test_stages_that_gain_little_are_given_up() -> None:
    """Where more fragments gain less than 5 %, there are fewer; the plan knows what was asked."""
    cost = make_cost(make_chain(7, seed=3), 1e7, 2e7, 1.5e7, bandwidth=3e7, overhead_s=1e-6)
    best = find_plan(cost, options=OPTIONS)
    simple = find_plan(cost, options=replace(OPTIONS, simple=True))
    assert _size(simple.plan) < _size(best.plan)
    assert simple.plan.options is not None
    assert simple.plan.options.simple
    single = find_plan(cost, planner="single", options=replace(OPTIONS, simple=True))
    assert len(single.plan.stages) == 1


def test_stages_are_joined_and_their_rows_moved() -> None:
    """One stage takes the place of three; where its rows were uneven it has even ones after."""
    parts = [part for n in range(3) for part in conv(f"c{n}", f"t{n}", f"t{n + 1}", (4, 4, 1, 1))]
    cost = make_cost(make_graph(parts, {"t0": (1, 4, 16, 8)}, ["t3"]), 1e7, 1e7, bandwidth=1e9)
    evaluator = Evaluator(cost, PlanOptions(simple=True))
    devices = evaluator.devices
    apart = tuple(DraftStage(n, n + 1, "rows", devices, (0, 8, 16)) for n in range(3))
    joined = simplify(evaluator, apart)
    assert joined == (DraftStage(0, 3, "rows", devices, (0, 8, 16)),)
    best = evaluator.score(joined)[0]
    uneven = tuple(DraftStage(n, n + 1, "rows", devices, (0, 11 - n, 16)) for n in range(3))
    moved = simplify(evaluator, uneven)
    assert len(moved) == 1
    assert best <= evaluator.score(moved)[0] <= 1.05 * evaluator.score(uneven)[0]
