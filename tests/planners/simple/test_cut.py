"""Cuts into whole ranges: the best of all cuts on chains, pins and missing links obeyed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product

import pytest

from partita.cluster import Cluster, Device, Link
from partita.cost import CostModel
from partita.errors import InfeasibleError
from partita.planners import Draft, DraftStage, Evaluator, PlanOptions, find_plan
from partita.planners.simple.cut import Cuts, plan_cut
from partita.planners.simple.cutting.tables import find_kinds
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


@pytest.mark.parametrize("seed", range(24))
def test_no_cut_of_a_chain_answers_more_requests(seed: int) -> None:
    """No other cut, devices used again as one likes, has a shorter period; nor fewer in flight."""
    rng = random.Random(seed)
    rates = [rng.choice((1e6, 10 ** rng.uniform(5.5, 7.5))) for _ in range(rng.choice((2, 3)))]
    cost = make_cost(
        make_chain(rng.choice((3, 4)), seed=seed),
        *rates,
        bandwidth=10 ** rng.uniform(5, 8),
        latency=rng.choice((0.0, 1e-4, 1e-2)),
        overhead_s=rng.choice((0.0, 1e-4)),
    )
    in_flight = rng.choice((1, 2, 4, 8))
    evaluator = Evaluator(cost, PlanOptions(objective="throughput", in_flight=in_flight))

    def period_s(draft: Draft) -> float:
        estimate = evaluator.estimate(draft)
        return max(estimate.bottleneck_s, estimate.latency_s / in_flight)

    cuts = Cuts(evaluator)
    found_s = min(map(period_s, cuts.drafts()))
    assert cuts.note == "every cut"
    assert found_s <= min(map(period_s, every_cut(evaluator))) * (1 + 1e-9)


@pytest.mark.parametrize("shared", ["medium", "ports"])
@pytest.mark.parametrize("seed", range(4))
def test_what_links_share_is_summed(seed: int, shared: str) -> None:
    """On a radio, or behind ports, no other cut of a chain has a shorter period."""
    rng = random.Random(seed)
    names = ("d0", "d1", "d2")
    rate = 10 ** rng.uniform(5, 6.5)
    port = rate if shared == "ports" else None
    medium = "air" if shared == "medium" else None
    cluster = Cluster.of(
        [Device(name, port_bytes_per_s=port) for name in names],
        links=[Link(a, b, 1.5 * rate, medium=medium) for a in names for b in names if a != b],
    )
    rates = {name: 10 ** rng.uniform(5.5, 6.5) for name in names}
    cost = FakeCost(make_chain(3, seed=seed), cluster, rates)
    evaluator = Evaluator(cost, PlanOptions(objective="throughput", in_flight=8))

    def period_s(draft: Draft) -> float:
        layout = evaluator.problem.layout(evaluator.problem.plan(draft))
        busy: dict[object, float] = {}
        for stream in layout.program.streams:
            link = cluster.link(stream.source, stream.target)
            assert link is not None
            lanes: list[tuple[object, float]] = [(link.pair, link.occupied_s(stream.wire_bytes))]
            lanes += [(link.medium, link.occupied_s(stream.wire_bytes))] if medium else []
            lanes += [(p.name, stream.wire_bytes / p.bytes_per_s) for p in link.ports]
            for lane, seconds in lanes:
                busy[lane] = busy.get(lane, 0.0) + seconds
        estimate = evaluator.estimate(draft)
        return max(estimate.bottleneck_s, estimate.latency_s / 8, *busy.values(), 0.0)

    found_s = min(map(period_s, Cuts(evaluator).drafts()))
    assert found_s <= min(map(period_s, every_cut(evaluator))) * (1 + 1e-9)


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
    with pytest.raises(
        InfeasibleError, match=r"no device that may has links both from it and to it"
    ):
        find_plan(cost, planner="cut", options=PlanOptions(devices=("d1",)))


@pytest.mark.parametrize("seed", range(16))
def test_no_cut_that_fits_is_faster(seed: int) -> None:
    """Where no device can hold all, the plan is the fastest of those whose memory suffices."""
    rng = random.Random(seed)
    graph = make_chain(4, channels=16, seed=seed)
    kinds = ("raspberry-pi-4",) if seed % 2 else BOARDS
    whole = CostModel(graph, _boards(10**9))
    alone = Evaluator(whole, PlanOptions()).ranges.memory(0, 4, "d1").total
    memory = [int(alone * rng.uniform(0.4, 1.0))] * 3
    memory[1:] = memory[1:] if seed % 4 else [int(alone * rng.uniform(0.4, 1.0)) for _ in range(2)]
    evaluator = Evaluator(CostModel(graph, _boards(*memory, kinds=kinds)), PlanOptions())
    least_s = min(map(evaluator.latency_of, every_cut(evaluator)))
    if least_s == float("inf"):
        with pytest.raises(InfeasibleError):
            plan_cut(evaluator)
    else:
        assert evaluator.latency_of(plan_cut(evaluator).draft) == pytest.approx(least_s)


BOARDS = ("raspberry-pi-3", "raspberry-pi-4", "jetson-nano")


def _boards(*memory: int, kinds: Sequence[str] = BOARDS) -> Cluster:
    devices = [
        Device(f"d{n}", kind=kinds[n % len(kinds)], memory_bytes=memory[n % len(memory)])
        for n in range(3)
    ]
    return Cluster.of(devices, bandwidth_bytes_per_s=1e8)


def test_the_least_memory_is_least() -> None:
    """For memory, no other cut with each device once takes a smaller part of any device's."""
    graph = make_chain(5, channels=16)
    options = PlanOptions(objective="memory")
    evaluator = Evaluator(CostModel(graph, _boards(10**7, 2 * 10**7, 10**7)), options)
    once = [d for d in every_cut(evaluator) if len({stage.devices for stage in d}) == len(d)]
    found = evaluator.score(plan_cut(evaluator).draft)
    assert found[0] == pytest.approx(min(map(evaluator.score, once))[0])


def test_the_least_energy_is_least() -> None:
    """For energy, no other cut takes fewer joules."""
    cost = make_cost(make_chain(4, seed=3), 1e6, 5e6, 2e7, bandwidth=1e6)
    evaluator = Evaluator(cost, PlanOptions(objective="energy"))
    found = evaluator.score(plan_cut(evaluator).draft)
    assert found[0] == pytest.approx(min(map(evaluator.score, every_cut(evaluator)))[0])


def test_devices_of_one_kind_are_counted_not_told_apart() -> None:
    """Equal devices with equal links are one kind; the requester and odd links are not."""
    links = [Link(a, b, 1e6) for a in ("d0", "d1", "d2", "d3", "d4") for b in ("d0", "d1", "d2")]
    links += [Link(a, b, 2e6) for a in ("d0", "d1", "d2", "d3", "d4") for b in ("d3", "d4")]
    cluster = Cluster.of(
        [f"d{n}" for n in range(5)], links=[one for one in links if one.source != one.target]
    )
    rates = {"d0": 1e6, "d1": 1e6, "d2": 1e6, "d3": 1e6, "d4": 2e6}
    evaluator = Evaluator(FakeCost(make_chain(3), cluster, rates), PlanOptions())
    assert find_kinds(evaluator) == [("d0",), ("d1", "d2"), ("d3",), ("d4",)]


def test_large_problems_are_beamed() -> None:
    """With more states than can be counted the plan still answers, and says how it was found."""
    rates = [1e6 * (1 + n / 7) for n in range(20)]
    cost = make_cost(make_chain(8), *rates, bandwidth=1e9)
    options = PlanOptions(objective="throughput", in_flight=40)
    result = find_plan(cost, planner="cut", options=options)
    assert result.note == "a beam of cuts"
    assert result.bottleneck_s < find_plan(cost, planner="single").bottleneck_s / 3


def test_time_spent_is_said() -> None:
    """A budget that is over leaves a plan, and its status says so."""
    cost = make_cost(make_chain(8), 1e6, 2e6, 3e6)
    options = PlanOptions(objective="throughput", in_flight=4, most_s=1e-9)
    assert find_plan(cost, planner="cut", options=options).status == "cut short"
