"""Groups of layers that take even time, and random assignment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from partita.cluster import Cluster, Device, Link
from partita.cost import CostModel
from partita.errors import PlanError
from partita.graph import Graph
from partita.planners import DraftStage, Evaluator, PlanOptions, find_plan
from partita.planners.drafts.draft import Draft, DraftAxis
from partita.planners.result import Result
from tests.planners.fakes import dense, make_chain, make_cost, make_graph, make_wide

FAST = 1e9
#: Channels of the layers of drawn networks.
WIDTHS = ((32, 8, 64, 64), (64, 64, 8, 16, 96), (128, 16, 16, 16), (8, 8, 8, 128, 128))


def make_heavy() -> Graph:
    """Three dense layers; the second has 33.6 MB of weights."""
    parts = [
        *dense("a", "x", "p", (64, 2048)),
        *dense("b", "p", "q", (2048, 4096)),
        *dense("c", "q", "y", (4096, 16)),
    ]
    return make_graph(parts, {"x": (1, 64)}, ["y"])


def boards(count: int, memory_bytes: int = 10**9, rate: float = FAST) -> Cluster:
    """Boards of one kind."""
    devices = [
        Device(f"d{k}", kind="raspberry-pi-3", memory_bytes=memory_bytes) for k in range(count)
    ]
    return Cluster.of(devices, bandwidth_bytes_per_s=rate, latency_s=1e-5)


def plan(cost: CostModel, planner: str = "collaborative", **method: str) -> Result:
    """A plan for throughput with two requests in flight per device."""
    options = PlanOptions(
        objective="throughput",
        in_flight=2 * len(cost.cluster.devices),
        method={f"{planner}.{name}": value for name, value in method.items()},
    )
    return find_plan(cost, planner=planner, options=options)


def groupings(start: int, count: int, free: tuple[str, ...]) -> Iterator[Draft]:
    """Every way to cut layers into ranges, each on one device or replicated on several."""
    if start == count:
        yield ()
        return
    for stop in range(start + 1, count + 1):
        for many in range(1, len(free) + 1):
            axis: DraftAxis = "none" if many == 1 else "replica"
            first = DraftStage(start, stop, axis, free[:many])
            for rest in groupings(stop, count, free[many:]):
                yield (first, *rest)


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_as_even_as_any(seed: int) -> None:
    """On boards of one kind no ranges and replicas are better than what is found."""
    cost = CostModel(make_wide(*WIDTHS[seed]), boards(3))
    found = plan(cost, splits="no")
    options = PlanOptions(objective="throughput", in_flight=6)
    evaluator = Evaluator(cost, options)
    ways = groupings(0, len(evaluator.outline), evaluator.devices)
    least = min(evaluator.score(draft)[0] for draft in ways)
    assert found.estimate.period_s <= 1.02 * least


def test_a_layer_that_no_board_holds_is_divided() -> None:
    """The dense layer's weights are more than a board's memory: its outputs are divided."""
    cost = CostModel(make_heavy(), boards(4, memory_bytes=30_000_000))
    found = plan(cost)
    axes = {stage.axis: len(stage.shards) for stage in found.plan.stages}
    assert axes["output_channels"] >= 2
    with pytest.raises(PlanError):
        plan(cost, splits="no", replicas="no")


def test_the_aim_decides() -> None:
    """Even groups answer more per second; the soonest way answers one request sooner."""
    cost = CostModel(make_wide(16, 32, 64, 64, 32, 16), boards(4, rate=5e6))
    even, soonest = plan(cost, aim="even"), plan(cost, aim="soonest")
    assert even.estimate.period_s <= soonest.estimate.period_s
    assert soonest.estimate.latency_s <= even.estimate.latency_s


def test_without_replicas_and_splits_each_group_is_whole() -> None:
    """What is switched off is not done."""
    cost = CostModel(make_wide(16, 32, 64, 64, 32, 16), boards(4))
    found = plan(cost, replicas="no", splits="no")
    assert {stage.axis for stage in found.plan.stages} == {"none"}


def test_a_random_assignment_is_drawn_from_the_seed() -> None:
    """Equal seeds give equal plans, others another; all devices come up."""
    cost = CostModel(make_wide(*[16] * 8), boards(3))

    def draw(seed: int) -> Result:
        return find_plan(cost, planner="random", options=PlanOptions(seed=seed))

    assert draw(1).plan.stages == draw(1).plan.stages
    assert any(draw(seed).plan.stages != draw(0).plan.stages for seed in range(1, 5))
    used = {s.device for seed in range(5) for st in draw(seed).plan.stages for s in st.shards}
    assert used == {"d0", "d1", "d2"}


def test_a_random_assignment_heeds_memory() -> None:
    """Where a layer fits on no board it is divided, or refused where that is switched off."""
    graph: Graph = make_heavy()
    cost = CostModel(graph, boards(4, memory_bytes=30_000_000))
    found = plan(cost, "random")
    assert any(stage.axis == "output_channels" for stage in found.plan.stages)
    with pytest.raises(PlanError):
        plan(cost, "random", split="no")


def test_planning_beats_chance() -> None:
    """Even groups answer more per second than the best of some random assignments."""
    cost = CostModel(make_wide(*[32] * 8), boards(4))
    chance = [
        find_plan(
            cost,
            planner="random",
            options=PlanOptions(objective="throughput", in_flight=8, seed=seed),
        )
        for seed in range(5)
    ]
    assert plan(cost).estimate.period_s < min(result.estimate.period_s for result in chance)


def test_a_board_too_slow_for_any_part_of_a_layer() -> None:
    """Three columns over three boards, one of them far slower: it has no part."""
    graph = make_graph(dense("a", "x", "y", (8, 3)), {"x": (1, 8)}, ["y"])
    kinds = ("raspberry-pi-3", "raspberry-pi-zero-2", "jetson-nano")
    cluster = Cluster.of([Device(kind, kind=kind) for kind in kinds], bandwidth_bytes_per_s=FAST)
    for planner in ("collaborative", "random"):
        assert plan(CostModel(graph, cluster), planner).latency_s > 0


def test_equal_replicas_have_equal_shares() -> None:
    """Each of three boards takes a third of the requests, said in the plan."""
    found = plan(CostModel(make_wide(16, 32, 32), boards(3)))
    (stage,) = found.plan.stages
    assert (stage.axis, stage.shares) == ("replica", (1, 1, 1))


def test_a_random_assignment_goes_where_links_and_room_are() -> None:
    """A board that others cannot reach has no layer, and little memory is drawn for again."""
    names = [f"d{k}" for k in range(4)]
    devices = [Device(name, kind="raspberry-pi-3", memory_bytes=8_000_000) for name in names]
    links = [Link(a, b, FAST) for a in names[:3] for b in names[:3] if a != b]
    cost = CostModel(make_wide(*[96] * 9, size=8), Cluster.of(devices, links=links))
    for seed in range(3):
        found = find_plan(cost, planner="random", options=PlanOptions(seed=seed))
        used = {shard.device for stage in found.plan.stages for shard in stage.shards}
        assert "d3" not in used


@pytest.mark.parametrize("budget_s", [0.0005, 0.001, 0.002, 0.003, 0.005, 0.01])
def test_a_plan_wherever_time_ends(budget_s: float) -> None:
    """Ranges that time left unpriced are in no plan, and replicas have shares."""
    for seed in range(8):
        cost = make_cost(make_chain(20, seed=seed), *[1e7] * 4, bandwidth=1e8)
        options = PlanOptions("throughput", budget_s=budget_s, in_flight=4)
        assert find_plan(cost, planner="collaborative", options=options).plan.stages
