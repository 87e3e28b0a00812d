"""Devices filled layer after layer: what fits nowhere whole is divided, wherever a plan fits."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from benchmarks.memory_fit import draw_cost, fleet, judge

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import OverfullError
from partita.planners import Evaluator, Objective, PlanOptions, find_plan
from partita.planners.search.memory_starts import memory_starts
from partita.planners.simple.single import single_drafts
from tests.planners.fakes import FakeCost, make_chain, make_dense

QUICK = PlanOptions(max_evaluations=10)


def _cost(*sizes: int, layers: int = 2) -> FakeCost:
    devices = [Device(f"d{number}", memory_bytes=size) for number, size in enumerate(sizes)]
    rates = {device.name: 1e6 for device in devices}
    return FakeCost(make_dense(layers), Cluster.of(devices), rates)


def test_ranges_fill_devices_as_far_as_they_have_room() -> None:
    """Twelve layers on two devices, each with room for little more than the larger part."""
    graph = make_chain(12, seed=5)
    ranges = Evaluator(CostModel(graph, fleet([10**9] * 2)), PlanOptions()).ranges
    parts = [(ranges.memory(0, p, "d0"), ranges.memory(p, 12, "d1")) for p in range(1, 12)]
    alone = parts[0][0].overhead
    need = min(max(first.total, rest.total) for first, rest in parts) - alone
    sizes = [alone + int(1.05 * need)] * 2
    evaluator = Evaluator(CostModel(graph, fleet(sizes)), PlanOptions())
    assert all(evaluator.score(draft)[0] == inf for draft in single_drafts(evaluator))
    starts = memory_starts(evaluator)
    assert starts
    for draft in starts:
        assert evaluator.score(draft)[0] < inf


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_what_fits_is_found_without_any_time(objective: Objective) -> None:
    """Requests in flight: what was simulated in time, and does not fit, is not taken before it."""
    options = PlanOptions(objective, in_flight=4, most_s=0.0)
    assert find_plan(_cost(2600, 2600, 2600), options=options).status == "cut short"


@pytest.mark.parametrize("objective", ["latency", "throughput", "memory", "energy"])
def test_a_layer_too_large_for_any_device_is_divided(objective: Objective) -> None:
    """The first dense layer has four fifths of all weights; three devices have each a half."""
    cost = _cost(3200, 2600, 2600)
    plan = find_plan(cost, options=replace(QUICK, objective=objective)).plan
    large = next(stage for stage in plan.stages if "fc0" in stage.layers)
    assert large.axis == "output_channels"
    assert len(large.shards) > 1


def test_limits_on_axes_hold() -> None:
    """Without output channels the layer fits nowhere, and nothing proves that it never could."""
    with pytest.raises(OverfullError, match="No plan found"):
        find_plan(_cost(3200, 2600, 2600), options=replace(QUICK, axes=("rows",)))


def test_pinned_layers_may_be_on_a_device_that_is_not_filled() -> None:
    """A search among some devices meets a layer that must be on another one."""
    cost = _cost(10**6, 2600, 2600)
    kept = cost.graph.layers[0].outputs[0]
    evaluator = Evaluator(cost, PlanOptions(keep_on={kept: "d0"})).among(["d1", "d2"])
    for draft in memory_starts(evaluator):
        assert draft[0].devices == ("d0",)


@pytest.mark.parametrize("first", [0, 10, 20])
def test_a_plan_is_found_wherever_trying_all_finds_one(first: int) -> None:
    """And nothing is proven there: the short form of ``benchmarks.memory_fit``."""
    outcomes = [judge(seed, QUICK, most_stages=3000) for seed in range(first, first + 4)]
    assert any(outcome.oracle for outcome in outcomes)
    for outcome in outcomes:
        assert outcome.ours or not outcome.oracle, outcome
        assert not (outcome.oracle and outcome.is_proven), outcome


def test_pieces_of_other_stages_take_room_too() -> None:
    """What a fill counts is less than what a plan takes: room is given out again until it fits."""
    evaluator = Evaluator(draw_cost(3), PlanOptions(in_flight=2))
    for draft in memory_starts(evaluator):
        evaluator.estimate(draft)
