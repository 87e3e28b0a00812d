"""Plans for throughput: never below replicas, pipelines or cuts, as simulated under load."""

from __future__ import annotations

import pytest
from benchmarks.bounds import catalogue_profile
from benchmarks.harness import find_model
from benchmarks.throughput import all_cuts, draw_case, unequal_cluster

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import PlanError
from partita.graph import load_graph
from partita.planners import Draft, DraftStage, Evaluator, PlanOptions, find_plan, planner_names
from partita.planners.bounds.least_period import fluid_period_s
from partita.planners.registry import get_planner
from partita.planners.search.pipelines import (
    balance_rows,
    busiest_s,
    expected_s,
    pipeline_drafts,
    replica_drafts,
    whole_shares,
)
from partita.simulation import answer_period_s
from tests.planners.fakes import FakeCost, make_chain, make_cost, make_dense

#: How exactly drafts are simulated while they are compared.
_CLOSE = 1.005


def _period_s(evaluator: Evaluator, draft: Draft) -> float:
    """What a draft takes per request in simulation; infinite where it is impossible."""
    try:
        layout = evaluator.problem.layout(evaluator.problem.plan(draft))
    except PlanError:
        return float("inf")
    return answer_period_s(layout.program, evaluator.cost.price(layout))


@pytest.mark.parametrize("seed", range(6))
def test_best_is_not_below_cuts_replicas_or_other_planners(seed: int) -> None:
    """All contiguous cuts with devices used again, replicas by speed, and every other planner."""
    cost, options = draw_case(seed, 4)
    best = find_plan(cost, options=options)
    evaluator = Evaluator(cost, options)
    layout = evaluator.problem.layout(best.plan)
    best_s = answer_period_s(layout.program, cost.price(layout))
    assert best.estimate.period_s == pytest.approx(best_s, rel=2e-3)
    assert best.least_period_s is not None
    assert best.least_period_s <= best_s * _CLOSE
    drafts = [*all_cuts(evaluator), *replica_drafts(evaluator)]
    assert best_s <= min(_period_s(evaluator, draft) for draft in drafts) * _CLOSE
    for name in planner_names():
        if get_planner(name).cost in ("cheap", "published"):
            other = find_plan(cost, planner=name, options=options)
            assert best_s <= other.estimate.period_s * _CLOSE, name


def test_replicas_take_shares_by_speed_and_reach_the_sum_of_speeds() -> None:
    """Four unequal devices on fast links answer as often as all of them together compute."""
    cost = make_cost(make_chain(3), 12e6, 6e6, 4e6, 3e6, bandwidth=1e9, overhead_s=0.0)
    result = find_plan(cost, options=PlanOptions("throughput", in_flight=8))
    assert [stage.axis for stage in result.plan.stages] == ["replica"]
    assert result.least_period_s is not None
    assert result.estimate.period_s <= 1.01 * result.least_period_s
    assert result.single is not None
    # 12, 6, 4 and 3 to 12: a little more than double, as simulated for both.
    assert result.single.period_s / result.estimate.period_s == pytest.approx(25 / 12, rel=0.02)
    assert result.worth_splitting


def test_a_slow_device_gets_few_requests() -> None:
    """A device 20 times slower than another takes one request of 21."""
    assert whole_shares([20.0, 1.0]) == (20, 1)
    rates = [1.0, 1 / 2, 1 / 3, 1 / 4] * 3
    shares = whole_shares(rates)
    period = max(share / rate for share, rate in zip(shares, rates, strict=True)) / sum(shares)
    assert period <= 1.01 / sum(rates)


def test_devices_that_cannot_hold_the_network_replicate_ranges() -> None:
    """Where none holds all of the weights, a range is replicated, and all four devices work."""
    graph = make_dense(6)
    weights = sum(layer.weight_bytes for layer in graph.layers)
    names = [Device(f"d{n}", memory_bytes=int(0.75 * weights)) for n in range(4)]
    cluster = Cluster.of(names, bandwidth_bytes_per_s=1e8)
    cost = FakeCost(graph, cluster, {device.name: 1e7 for device in names})
    result = find_plan(cost, options=PlanOptions("throughput", in_flight=8, max_evaluations=300))
    assert "replica" in {stage.axis for stage in result.plan.stages}
    assert len({shard.device for stage in result.plan.stages for shard in stage.shards}) == 4


def test_rows_are_balanced_and_stay_whole() -> None:
    """Moving single rows makes the busiest device less busy, and loses none."""
    cost = make_cost(make_chain(4, seed=5, height=24), 3e6, 2e6, 1e6)
    evaluator = Evaluator(cost, PlanOptions("throughput", in_flight=2))
    names = evaluator.devices
    even = tuple(DraftStage(n, n + 1, "rows", names, (0, 8, 16, 24)) for n in range(4))
    balanced = balance_rows(evaluator, even)
    assert busiest_s(evaluator, balanced) < 0.8 * busiest_s(evaluator, even)
    assert [stage.cuts[-1] for stage in balanced] == [24] * 4
    for draft in pipeline_drafts(evaluator, 10):
        assert balance_rows(evaluator, draft) == draft


def test_few_requests_keep_twelve_devices_busy() -> None:
    """With fewer requests than devices, rows of early layers and replicas of the rest are enough.

    The head is cut where few bytes cross, far from where computing alone would be even, in a long
    first stage and short ones, since halos of early layers are small.
    """
    graph = load_graph(find_model("mobilenet_v2"))
    cost = CostModel(graph, unequal_cluster(12, 200.0), profiles=catalogue_profile(graph, "laptop"))
    evaluator = Evaluator(cost, PlanOptions("throughput", in_flight=8, most_s=1e6))
    enough_s = fluid_period_s(evaluator) / 0.9
    assert any(evaluator.judge(draft)[0] <= enough_s for draft in pipeline_drafts(evaluator, 24))


@pytest.mark.parametrize(
    "options",
    [
        PlanOptions("latency", in_flight=4, max_evaluations=50),
        PlanOptions("throughput", in_flight=1, max_evaluations=50),
    ],
)
def test_without_load_no_replicas_are_tried(options: PlanOptions) -> None:
    """One request at a time, or latency, asks for none."""
    result = find_plan(make_cost(make_chain(3), 2e6, 1e6), options=options)
    assert all(stage.axis != "replica" for stage in result.plan.stages)


@pytest.mark.parametrize("devices", [("d0", "d1", "d2", "d3"), ("d0", "d0", "d1", "d2")])
def test_tiles_are_weighed_like_rows(devices: tuple[str, ...]) -> None:
    """Each device has its tiles of every band and column, one that has two has both."""
    cost = make_cost(make_chain(1, height=16), 1e6, 1e6, 1e6, 1e6, bandwidth=1e9)
    evaluator = Evaluator(cost, PlanOptions(objective="throughput", in_flight=4))
    tiles = DraftStage(0, 1, "tiles", devices, (0, 8, 16), (0, 8, 16))
    rows = DraftStage(0, 1, "rows", ("d0", "d1", "d2", "d3"), (0, 4, 8, 12, 16))
    times = [expected_s(evaluator, (stage,)) for stage in (tiles, rows)]
    assert 0 < times[1] <= times[0] < 4 * times[1]
