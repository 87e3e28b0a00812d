"""The planner to use: what it may do, what it must keep to, and how near the optimum it comes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.optimality import EQUAL, draw_cases, judge

from partita.cluster import load_cluster
from partita.compile import Layout, build_layout
from partita.compile.check import check_plan
from partita.cost import CostModel
from partita.errors import InfeasibleError, PlanError
from partita.graph import Graph, load_graph
from partita.plan import dump_plan
from partita.planners import Objective, PlanOptions, Result, find_plan
from partita.zoo import build_model
from tests.planners.fakes import FakeCost, make_chain, make_cost

QUICK = PlanOptions(max_evaluations=500)


@pytest.fixture(scope="module")
def vgg() -> Graph:
    """VGG-16 on a small image: every kind of layer that the large one has."""
    return load_graph(build_model("vgg16", size=64))


def _large(**more: float) -> FakeCost:
    """Return a chain that has too many plans to try all."""
    return make_cost(make_chain(6, seed=1), 1e7, 2e7, 1.5e7, bandwidth=3e7, **more)


def _layout(cost: FakeCost, result: Result) -> Layout:
    return build_layout(cost.graph, result.plan, cost.cluster)


def test_equal_seeds_give_equal_plans() -> None:
    """The number of evaluations ends the search, so that time cannot change the plan."""
    plans = [dump_plan(find_plan(_large(), options=QUICK).plan) for _ in range(2)]
    assert plans[0] == plans[1]


def test_cut_short_only_when_the_budget_ends_the_search() -> None:
    """Without time the search says so; with time, however few the evaluations, it does not."""
    assert find_plan(_large(), options=replace(QUICK, most_s=0.0)).status == "cut short"
    assert find_plan(_large(), options=replace(QUICK, max_evaluations=60)).status == "heuristic"


def test_optima_of_small_networks_are_found() -> None:
    """Without trying every plan, best is within a hundredth of trying every plan."""
    misses = [judge(cost, plans).miss for cost, plans in draw_cases(4)]
    assert max(misses) <= 0.01
    assert sum(miss <= EQUAL for miss in misses) >= 3


def test_only_the_axes_given_are_divided() -> None:
    """Rows alone are divided where only rows may be; an unknown axis is refused."""
    cost = make_cost(make_chain(6, seed=1), *[1e6] * 4, bandwidth=1e9)
    plan = find_plan(cost, options=replace(QUICK, axes=("rows",))).plan
    divided = {stage.axis for stage in plan.stages if len(stage.shards) > 1}
    assert divided == {"rows"}
    plan = find_plan(cost, options=replace(QUICK, axes=("output_channels",))).plan
    assert {stage.axis for stage in plan.stages} <= {"output_channels", "none"}
    with pytest.raises(PlanError, match="allowed: rows, tiles, output_channels"):
        find_plan(cost, options=replace(QUICK, axes=("columns",)))


def test_allowing_tiles_costs_nothing(vgg: Graph) -> None:
    """A plan that may have tiles is sound, and no slower than one that may not."""
    cost = CostModel(vgg, load_cluster("scenario:LA"))
    options = PlanOptions(max_evaluations=1500)
    free = find_plan(cost, options=replace(options, axes=("rows", "tiles")))
    check_plan(vgg, free.plan, cost.cluster)
    rows = find_plan(cost, options=replace(options, axes=("rows",)))
    assert free.latency_s <= rows.latency_s * 1.02


@pytest.mark.parametrize("objective", ["throughput", "memory", "energy"])
def test_splitting_is_judged_by_the_objective(objective: Objective) -> None:
    """Whether it is worth it says what the objective measures, not always the latency."""
    cost = make_cost(make_chain(6, seed=1), *[1e6] * 4, bandwidth=1e9)
    options = replace(QUICK, objective=objective, in_flight=4, max_evaluations=300)
    found = find_plan(cost, options=options)
    assert found.single is not None
    ours, alone = (
        {
            "throughput": one.period_s,
            "memory": max(one.memory_bytes.values()),
            "energy": one.energy_joules,
        }[objective]
        for one in (found.estimate, found.single)
    )
    assert found.worth_splitting == (alone > 1.05 * ours)
    assert found.worth_splitting == (objective != "energy")


def test_energy_limits_hold() -> None:
    """A device gets no more work than its joules allow; impossible limits name it and exit 3."""
    cost = _large()
    free = find_plan(cost, options=QUICK)
    used = cost.busy_s(_layout(cost, free))["d1"] * cost.watts_busy("d1")
    limits = {"d1": used / 2}
    result = find_plan(cost, options=replace(QUICK, energy_limits=limits))
    kept = cost.busy_s(_layout(cost, result)).get("d1", 0.0) * cost.watts_busy("d1")
    assert kept <= limits["d1"]
    assert result.latency_s >= free.latency_s
    everywhere = dict.fromkeys(cost.cluster.names, 1e-9)
    with pytest.raises(InfeasibleError, match="too much energy of device 'd0'") as caught:
        find_plan(cost, options=replace(QUICK, energy_limits=everywhere))
    assert caught.value.exit_code == 3


def test_lossy_transfers_are_taken_where_they_help() -> None:
    """On slow links fewer bits are faster; only tensors that travel are named."""
    cost = make_cost(make_chain(4, seed=2), 1e6, 1e6, 1e6, bandwidth=3e5)
    raw = find_plan(cost, options=QUICK)
    lossy = find_plan(cost, options=replace(QUICK, compress="uint8"))
    assert lossy.latency_s < raw.latency_s
    assert lossy.plan.wires
    assert not raw.plan.wires
    streams = _layout(cost, lossy).program.streams
    assert set(lossy.plan.wires) <= {stream.tensor for stream in streams}
    with pytest.raises(PlanError, match="allowed: raw, float16"):
        find_plan(cost, options=replace(QUICK, compress="zip"))


def test_lossy_is_not_named_where_it_gains_nothing() -> None:
    """A plan on one device stays exact although it might compress."""
    cost = make_cost(make_chain(3), 1e9, 1e6, latency=1.0)
    assert not find_plan(cost, options=replace(QUICK, compress="float16")).plan.wires


def test_replicas_serve_requests_by_turns() -> None:
    """For throughput on links too slow to divide, equal devices take whole requests."""
    cost = make_cost(make_chain(3), 1e6, 1e6, 1e6, bandwidth=1e6)
    options = PlanOptions(objective="throughput", in_flight=6, max_evaluations=300)
    result = find_plan(cost, options=options)
    alone = find_plan(cost, planner="single", options=options)
    assert result.estimate.period_s < 0.5 * alone.estimate.period_s
