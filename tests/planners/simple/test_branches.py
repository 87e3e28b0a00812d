"""Parallel branches on different devices: towers of dense layers, blocks of GoogLeNet."""

from __future__ import annotations

import random
from itertools import product

import pytest
from benchmarks.harness import find_model
from onnx import helper

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.graph import Graph, load_graph
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.simple.branches import branch_drafts
from partita.planners.simple.chains import Tasks
from tests.planners.fakes import dense, make_chain, make_cost, make_graph


def towers(count: int, depth: int = 2, width: int = 32, seed: int | None = None) -> Graph:
    """A fork into dense layers one after the other, joined at the end; widths from a seed."""
    rng = random.Random(seed)
    parts: list[object] = []
    ends: list[str] = []
    total = 0
    for tower in range(count):
        source, before = "x", width
        for number in range(depth):
            after = width if seed is None else width * rng.choice((1, 2, 4))
            name = f"t{tower}-{number}"
            parts += dense(name, source, f"{name}.o", (before, after))
            parts.append(helper.make_node("Softmax", [f"{name}.o"], [f"{name}.s"], name=f"{name}s"))
            source, before = f"{name}.s", after
        ends.append(source)
        total += before
    parts.append(helper.make_node("Concat", ends, ["joined"], name="join", axis=1))
    parts += dense("last", "joined", "y", (total, 4))
    return make_graph(parts, {"x": (1, width)}, ["y"])


def test_each_tower_has_a_device() -> None:
    """Three equal towers on three devices take little more than one of them; one after the other
    they take three times as long."""
    cost = make_cost(towers(3, 3), 1e6, 1e6, 1e6, bandwidth=1e8, overhead_s=1e-5)
    plan = find_plan(cost, planner="branches").plan
    places = {layer: stage.shards[0].device for stage in plan.stages for layer in stage.layers}
    by_tower = [{places[name] for name in places if name.startswith(f"t{n}")} for n in range(3)]
    assert sorted(map(sorted, by_tower)) == [["d0"], ["d1"], ["d2"]]
    found_s = find_plan(cost, planner="branches").latency_s
    assert found_s < 0.45 * find_plan(cost, planner="cut").latency_s


def test_the_search_starts_from_branches() -> None:
    """Dense towers gain nothing by division when messages take long; side by side they do."""
    cost = make_cost(towers(3, 3, 64), *[1e6] * 3, bandwidth=1e7, latency=1e-3)
    best_s = find_plan(cost, options=PlanOptions(max_evaluations=200)).latency_s
    assert best_s <= find_plan(cost, planner="branches").latency_s
    assert best_s < 0.7 * find_plan(cost, planner="cut").latency_s


@pytest.mark.parametrize("seed", range(6))
def test_few_placements_of_branches_are_faster(seed: int) -> None:
    """On drawn forks the plan is within a third of the best placement of all chains of layers."""
    rng = random.Random(seed)
    rates = [10 ** rng.uniform(5.7, 6.3) for _ in range(3)]
    cost = make_cost(towers(4, 1, seed=seed), *rates, bandwidth=10 ** rng.uniform(6, 8))
    evaluator = Evaluator(cost, PlanOptions())
    tasks = Tasks(evaluator)
    placements = product(evaluator.devices, repeat=len(tasks.all))
    least_s = min(evaluator.latency_of(tasks.draft(places)) for places in placements)
    assert find_plan(cost, planner="branches").latency_s <= 4 / 3 * least_s


def test_chains_have_no_branches() -> None:
    """Where nothing is parallel there is no schedule, and the plan is the best single device."""
    cost = make_cost(make_chain(5), 1e6, 2e6, bandwidth=1e9)
    assert branch_drafts(Evaluator(cost, PlanOptions())) == []
    single_s = find_plan(cost, planner="single").latency_s
    assert find_plan(cost, planner="branches").latency_s == single_s


def test_kept_tensors_stay_with_their_branch() -> None:
    """A branch that touches a kept tensor runs where it is."""
    cost = make_cost(towers(3, 3), 1e6, 1e6, 1e6, bandwidth=1e8)
    options = PlanOptions(keep_on={"t1-0.s": "d2"})
    plan = find_plan(cost, planner="branches", options=options).plan
    places = {layer: stage.shards[0].device for stage in plan.stages for layer in stage.layers}
    assert {places["t1-0s"], places["t1-1"]} == {"d2"}


def test_blocks_of_googlenet_gain_on_fast_links() -> None:
    """Two Raspberry Pi 4 on 1 Gbit/s: side by side its branches take a sixth less than alone."""
    cluster = Cluster.of(
        [Device(name, kind="raspberry-pi-4") for name in ("d0", "d1")],
        bandwidth_bytes_per_s=125e6,
        latency_s=2e-4,
    )
    cost = CostModel(load_graph(find_model("light_inception_v1")), cluster)
    alone_s = find_plan(cost, planner="cut").latency_s
    assert find_plan(cost, planner="branches").latency_s < 5 / 6 * alone_s
