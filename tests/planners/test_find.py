"""The way from a cost model to a result, and what is refused on the way."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from partita.cluster import Cluster, Device
from partita.errors import InfeasibleError, PlanError
from partita.planners import PlanOptions, find_plan, get_planner, planner_names
from tests.planners.fakes import FakeCost, make_chain, make_cost, make_gated, unlinked

#: Those that train take longer, and have tests of their own.
QUICK = [name for name in planner_names() if get_planner(name).cost != "training"]


def test_unknown_planner_lists_the_known_ones() -> None:
    """A wrong name is answered with all right ones."""
    cost = make_cost(make_chain(2), 1e8, 2e8)
    with pytest.raises(PlanError, match=r"allowed: single, .*equal_rows.*best") as caught:
        find_plan(cost, planner="fastest")
    assert caught.value.exit_code == 2


def test_unknown_objective_lists_the_known_ones() -> None:
    """A wrong objective is answered with all right ones."""
    cost = make_cost(make_chain(2), 1e8, 2e8)
    with pytest.raises(PlanError, match="latency, throughput, memory, energy"):
        find_plan(cost, objective="speed")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["keep_on", "wires", "energy_limits", "method"])
def test_options_that_are_no_mapping_are_refused(name: str) -> None:
    """Pairs in a list, say, where a mapping is wanted, are one clear error."""
    cost = make_cost(make_chain(2), 1e8, 2e8)
    options = replace(PlanOptions(), **{name: [("x", "d0")]})  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=f"Option '{name}' is a list, allowed: a mapping"):
        find_plan(cost, options=options)


def test_single_is_the_least_over_devices() -> None:
    """The best single device is far but fast, and its transfers count."""
    cost = make_cost(make_chain(3), 1e8, 4e8, 2e8, bandwidth=1e8)
    result = find_plan(cost, planner="single")
    assert {shard.device for stage in result.plan.stages for shard in stage.shards} == {"d1"}
    assert result.latency_s == result.best_single_s
    assert not result.worth_splitting


def test_slow_links_make_splitting_not_worth_it() -> None:
    """Where every transfer costs more than it saves, the whole network stays at the requester."""
    cost = make_cost(make_chain(3), 1e8, 1e8, 1e8, latency=1.0)
    result = find_plan(cost)
    assert len(result.plan.stages) == 1
    assert not result.worth_splitting
    assert result.lower_bound_s <= result.latency_s


def test_fast_links_make_splitting_worth_it() -> None:
    """Large maps over fast links are divided, and the gain is told."""
    cost = make_cost(make_chain(3, seed=2), 1e7, 1e7, bandwidth=1e9, overhead_s=0.0)
    result = find_plan(cost)
    assert result.worth_splitting
    assert result.latency_s < 0.8 * result.best_single_s


def test_a_device_without_links_is_left_out() -> None:
    """The fastest device gets nothing when nothing reaches it."""
    result = find_plan(unlinked(make_chain(2)))
    used = {shard.device for stage in result.plan.stages for shard in stage.shards}
    assert "d2" not in used


def test_no_device_with_enough_memory_is_infeasible() -> None:
    """With memory for no part of the network the error names a device and exits with 3."""
    graph = make_chain(2)
    cluster = Cluster.of([Device("d0", memory_bytes=10), Device("d1", memory_bytes=10)])
    for name in QUICK:
        with pytest.raises(InfeasibleError, match=" on 'd") as caught:
            find_plan(FakeCost(graph, cluster, {"d0": 1e8, "d1": 1e8}), planner=name)
        assert caught.value.exit_code == 3


def test_small_memory_moves_work_elsewhere() -> None:
    """A fast device that cannot hold the network does not get all of it."""
    graph = make_chain(3)
    need = sum(layer.weight_bytes for layer in graph.layers)
    small = Device("d1", memory_bytes=need // 2)
    cluster = Cluster.of([Device("d0"), small], bandwidth_bytes_per_s=1e9)
    result = find_plan(FakeCost(graph, cluster, {"d0": 1e7, "d1": 1e9}))
    assert result.estimate.memory_bytes.get("d1", 0) <= small.memory_bytes


def test_tensor_kept_on_the_camera_stays() -> None:
    """The layer that reads a kept input runs where the input is, whatever the planner."""
    cost = make_cost(make_chain(3), 1e7, 1e9, bandwidth=1e9)
    options = PlanOptions(keep_on={"x": "d0"})
    for name in QUICK:
        plan = find_plan(cost, planner=name, options=options).plan
        first = next(stage for stage in plan.stages if "c0" in stage.layers)
        assert [shard.device for shard in first.shards] == ["d0"]
        assert plan.keep_on == {"x": "d0"}


def test_input_cannot_be_kept_away_from_the_requester() -> None:
    """An input is on the requester; keeping it elsewhere is infeasible."""
    cost = make_cost(make_chain(2), 1e8, 1e8)
    with pytest.raises(InfeasibleError, match="requester 'd0'"):
        find_plan(cost, options=PlanOptions(keep_on={"x": "d1"}))
    with pytest.raises(PlanError, match="no such tensor"):
        find_plan(cost, options=PlanOptions(keep_on={"z": "d0"}))


def test_objectives_pull_apart() -> None:
    """Each objective's plan is at least as good by its own measure as the latency plan."""
    cost = make_cost(make_chain(3, seed=4), 1e8, 1e8, bandwidth=1e9)
    base = PlanOptions(in_flight=4)
    results = {
        name: find_plan(cost, objective=name, options=base)
        for name in ("latency", "throughput", "memory", "energy")
    }
    fast = results["latency"].estimate
    assert results["throughput"].estimate.period_s <= fast.period_s
    assert results["energy"].estimate.energy_joules <= fast.energy_joules
    most = max(results["memory"].estimate.memory_bytes.values())
    assert most <= max(fast.memory_bytes.values())


def test_more_devices_than_rows_is_no_trouble() -> None:
    """Devices without a row are left with nothing to do."""
    cost = make_cost(make_chain(2), *[1e8] * 11, bandwidth=1e9)
    for name in ("equal_rows", "proportional_rows"):
        assert find_plan(cost, planner=name).latency_s > 0
    options = PlanOptions(max_evaluations=60)
    assert find_plan(cost, options=options).latency_s > 0


def test_exhaustive_refuses_large_networks_with_a_count() -> None:
    """The oracle says how many plans there would be, and exits with 3."""
    cost = make_cost(make_chain(6), *[1e8] * 4)
    with pytest.raises(
        InfeasibleError, match=r"would look at \d{7,} plans or more, allowed are 1000000"
    ):
        find_plan(cost, planner="exhaustive")


def test_squeeze_and_excite_stays_divided() -> None:
    """The gate's mean is summed where the rows are, and rows go on after it."""
    cost = make_cost(make_gated(), 1e6, 1e6, bandwidth=3e5, overhead_s=0.0)
    plan = find_plan(cost).plan
    sums = [stage for stage in plan.stages if stage.merge]
    assert [len(stage.shards) for stage in sums] == [2]
    after = next(stage for stage in plan.stages if "c1" in stage.layers)
    assert after.axis == "rows"


def test_only_named_devices_compute() -> None:
    """A plan limited to some devices uses no other."""
    cost = make_cost(make_chain(3), 1e7, 1e9, 1e8, bandwidth=1e9)
    options = PlanOptions(devices=("d0", "d2"))
    plan = find_plan(cost, options=options).plan
    assert {shard.device for stage in plan.stages for shard in stage.shards} <= {"d0", "d2"}


def test_search_ends_within_its_evaluations() -> None:
    """A search prices hardly more plans than it may."""
    cost = make_cost(make_chain(6, seed=1), 1e7, 2e7, 1e7, bandwidth=1e9)
    result = find_plan(cost, options=replace(PlanOptions(most_s=60), max_evaluations=80))
    assert result.evaluations < 400


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_a_search_leaves_nothing_to_collect(objective: str) -> None:
    """A leader searches again and again: all that is ours in a search is freed when it ends."""
    cost = make_cost(make_chain(6, height=16), 1e8, 2e8, 1e8)
    options = PlanOptions(objective=objective, in_flight=2, max_evaluations=300)  # type: ignore[arg-type]
    find_plan(cost, options=options)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        find_plan(cost, options=options)
        gc.collect()
        kinds = {type(one) for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert [kind for kind in kinds if kind.__module__.startswith("partita")] == []


def test_where_no_device_computes_there_is_no_plan() -> None:
    """As after the loss of all but a requester that only asks."""
    cluster = Cluster.of([Device("d0", computes=False), Device("d1")]).without("d1")
    with pytest.raises(InfeasibleError, match="no device that computes"):
        find_plan(FakeCost(make_chain(2), cluster, {"d0": 1e9}))
