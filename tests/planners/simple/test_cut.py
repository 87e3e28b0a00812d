"""Cuts into whole ranges: the best of all cuts on chains, pins and missing links obeyed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, pairwise, product

import pytest

from partita.cluster import Cluster, Link
from partita.errors import InfeasibleError
from partita.planners import Draft, DraftStage, Evaluator, PlanOptions, find_plan
from partita.planners.simple.cut import MOST_PIPELINE_DEVICES, cut_drafts, plan_cut
from tests.planners.fakes import FakeCost, make_chain, make_cost


def every_cut(evaluator: Evaluator) -> Iterator[Draft]:
    """All ways to cut the layers into ranges, each on any device but the one before."""
    count = len(evaluator.outline)
    for parts in range(1, count + 1):
        for inner in combinations(range(1, count), parts - 1):
            ranges = list(pairwise((0, *inner, count)))
            for devices in product(evaluator.devices, repeat=parts):
                if all(a != b for a, b in pairwise(devices)):
                    yield tuple(
                        DraftStage(start, stop, "none", (device,))
                        for (start, stop), device in zip(ranges, devices, strict=True)
                    )


@pytest.mark.parametrize("seed", range(12))
def test_no_cut_of_a_chain_is_faster(seed: int) -> None:
    """On chains the dynamic program's latency is the least over every cut and placement."""
    rng = random.Random(seed)
    cost = make_cost(
        make_chain(4, seed=seed),
        *(10 ** rng.uniform(5, 8) for _ in range(3)),
        bandwidth=10 ** rng.uniform(4, 8),
        latency=rng.choice((0.0, 1e-4, 1e-2)),
    )
    evaluator = Evaluator(cost, PlanOptions())
    found_s = evaluator.latency_of(plan_cut(evaluator).draft)
    assert found_s == pytest.approx(min(map(evaluator.latency_of, every_cut(evaluator))))


@pytest.mark.parametrize("seed", range(6))
def test_no_pipeline_of_a_chain_is_less_busy(seed: int) -> None:
    """For throughput one draft has the least busy time over all cuts that use a device once."""
    rng = random.Random(seed)
    rates = [10 ** rng.uniform(5, 7) for _ in range(3)]
    cost = make_cost(make_chain(4, seed=seed), *rates, bandwidth=10 ** rng.uniform(5, 8))
    evaluator = Evaluator(cost, PlanOptions(objective="throughput", in_flight=4))

    def busiest_s(draft: Draft) -> float:
        return evaluator.estimate(draft).bottleneck_s

    once = [
        draft
        for draft in every_cut(evaluator)
        if len({stage.devices for stage in draft}) == len(draft)
    ]
    assert min(map(busiest_s, cut_drafts(evaluator))) == pytest.approx(min(map(busiest_s, once)))


def test_missing_links_are_not_used() -> None:
    """A fast device that can be reached, but cannot answer, gets nothing."""
    links = [Link("d0", "d1", 1e9), Link("d0", "d2", 1e9), Link("d2", "d0", 1e9)]
    cluster = Cluster.of(["d0", "d1", "d2"], links=links)
    cost = FakeCost(make_chain(3), cluster, {"d0": 1e6, "d1": 1e12, "d2": 1e8})
    plan = find_plan(cost, planner="cut").plan
    assert "d1" not in {shard.device for stage in plan.stages for shard in stage.shards}


def test_kept_tensors_split_ranges() -> None:
    """Layers that touch a kept tensor run where it is, whatever is fast."""
    cost = make_cost(make_chain(4), 1e6, 1e9, bandwidth=1e9)
    plan = find_plan(cost, planner="cut", options=PlanOptions(keep_on={"t1": "d1"})).plan
    places = {layer: s.shards[0].device for s in plan.stages for layer in s.layers}
    assert places["c1"] == places["c2"] == "d1"


def test_no_device_can_be_reached() -> None:
    """Where the requester does not compute and has no links, the message says what is missing."""
    cluster = Cluster.of(["d0", "d1"], links=[])
    cost = FakeCost(make_chain(2), cluster, {"d0": 1e6, "d1": 1e9})
    with pytest.raises(InfeasibleError, match="no such link"):
        find_plan(cost, planner="cut", options=PlanOptions(devices=("d1",)))


def test_pipelines_combine_few_of_many_devices() -> None:
    """With more devices than can be combined, the fastest are, and the plan still answers."""
    rates = [1e6 * (1 + n) for n in range(MOST_PIPELINE_DEVICES + 3)]
    cost = make_cost(make_chain(5), *rates, bandwidth=1e9)
    options = PlanOptions(objective="throughput", in_flight=4)
    plan = find_plan(cost, planner="cut", options=options).plan
    used = {shard.device for stage in plan.stages for shard in stage.shards}
    assert len(used) <= MOST_PIPELINE_DEVICES
