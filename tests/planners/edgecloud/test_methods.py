"""What the methods for an edge and a cloud decide, and what their plans cost."""

from __future__ import annotations

import pytest
from onnx import helper

from partita.cluster import Cluster, Device, Link
from partita.errors import InfeasibleError, PlanError
from partita.graph import Graph
from partita.planners import Evaluator, PlanOptions, Result, find_plan
from partita.planners.edgecloud.min_cut import least_cut
from partita.planners.edgecloud.roles import find_roles, prefix_drafts, split_draft, two_sides
from tests.planners.fakes import (
    FakeCost,
    conv,
    make_chain,
    make_cost,
    make_gated,
    make_graph,
    make_pair,
    make_residual,
    make_wide,
)


def _devices(result: Result) -> list[str]:
    return [shard.device for stage in result.plan.stages for shard in stage.shards]


def _camera(graph: Graph, rate: float, server: float = 1e9, **more: float) -> FakeCost:
    """Return a slow device with a link of ``rate`` bytes per second to a fast one."""
    return make_cost(graph, 2e7, server, bandwidth=rate, **more)


@pytest.mark.parametrize("planner", ["cloud_only", "edge_only"])
def test_one_side_has_the_whole_network(planner: str) -> None:
    """The requester alone, or the fastest of the others alone, however slow the link is."""
    cost = make_cost(make_chain(3), 9e7, 1e7, 4e7, 2e7, bandwidth=1e4)
    result = find_plan(cost, planner=planner)
    assert _devices(result) == [{"edge_only": "d0", "cloud_only": "d2"}[planner]]


def test_the_cloud_can_be_named() -> None:
    """Any other device; an unknown one, and one that may not compute, are one clear line."""
    cost = make_cost(make_chain(3), 1e7, 2e7, 4e7)
    for planner in ("cloud_only", "neurosurgeon", "qdmp"):
        method = {f"{planner}.cloud": "d1"}
        result = find_plan(cost, planner=planner, options=PlanOptions(method=method))
        assert "d2" not in _devices(result)
    with pytest.raises(PlanError, match="'moon'"):
        find_plan(cost, planner="qdmp", options=PlanOptions(method={"qdmp.cloud": "moon"}))
    options = PlanOptions(method={"qdmp.cloud": "d2"}, devices=("d0", "d1"))
    with pytest.raises(
        PlanError, match="'d2' is to be the cloud, but may not compute; allowed: d0"
    ):
        find_plan(cost, planner="qdmp", options=options)


def test_the_cloud_is_the_fastest_device_with_links_both_ways() -> None:
    """A faster device that the requester cannot reach is passed over."""
    names = ["d0", "d1", "d2"]
    links = [Link(a, b, 1e7) for a in names for b in names if a != b and {a, b} != {"d0", "d2"}]
    cluster = Cluster.of(names, links=links)
    cost = FakeCost(make_chain(2), cluster, {"d0": 1e7, "d1": 2e7, "d2": 9e7})
    assert find_roles(Evaluator(cost, PlanOptions())).cloud == "d1"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rate", [1e5, 1e6, 1e7])
def test_neurosurgeon_is_the_best_prefix(seed: int, rate: float) -> None:
    """No other place of the order has a plan of less latency."""
    graph = make_residual(seed) if seed % 3 == 2 else make_chain(5, seed=seed)
    evaluator = Evaluator(_camera(graph, rate, latency=1e-3), PlanOptions())
    drafts = prefix_drafts(evaluator, find_roles(evaluator))
    result = find_plan(evaluator.cost, planner="neurosurgeon")
    assert result.latency_s == min(map(evaluator.latency_of, drafts))


def test_of_equal_places_neurosurgeon_takes_the_earliest() -> None:
    """Layers that take nothing stay in the cloud where their tensors are equally large."""
    cost = make_cost(make_wide(3, 3, 3, 3), 1e30, 1e30, overhead_s=0.0)
    options = PlanOptions(keep_on={"t3": "d1"})
    assert _devices(find_plan(cost, planner="neurosurgeon", options=options)) == ["d1"]


@pytest.mark.parametrize("make", [make_gated, make_residual, lambda: make_chain(6)])
@pytest.mark.parametrize("rate", [1e5, 1e6, 1e7])
def test_sums_of_prefixes_are_their_latencies(make: object, rate: float) -> None:
    """A network cut in two ranges runs one after the other: the sum is what the simulation says."""
    cost = _camera(make(), rate, latency=2e-3)  # type: ignore[operator]
    evaluator = Evaluator(cost, PlanOptions())
    roles = find_roles(evaluator)
    sums = two_sides(evaluator, roles).prefix_s()
    latencies = [evaluator.latency_of(draft) for draft in prefix_drafts(evaluator, roles)]
    assert sums == pytest.approx(latencies, rel=1e-9)


def test_an_input_that_the_cloud_reads_travels_while_the_edge_computes() -> None:
    """Of two inputs one is sent at once: the simulation is sooner than the sum."""
    evaluator = Evaluator(_camera(make_pair(), 1e6), PlanOptions())
    roles = find_roles(evaluator)
    sums = two_sides(evaluator, roles).prefix_s()
    latencies = [evaluator.latency_of(draft) for draft in prefix_drafts(evaluator, roles)]
    assert all(one <= other * (1 + 1e-9) for one, other in zip(latencies, sums, strict=True))
    assert latencies[1] < 0.999 * sums[1]


@pytest.mark.parametrize("rate", [1e4, 1e5, 1e6, 1e7])
def test_qdmp_is_no_worse_by_sums_than_any_prefix(rate: float) -> None:
    """The minimum cut may take any set of layers; its note tells the sum."""
    for graph in (make_gated(), make_residual(1), make_pair(), _make_fork()):
        evaluator = Evaluator(_camera(graph, rate), PlanOptions())
        sides = two_sides(evaluator, find_roles(evaluator))
        edge = least_cut(sides)
        assert edge is not None
        assert sides.seconds(edge) <= min(sides.prefix_s()) * (1 + 1e-9)
        result = find_plan(evaluator.cost, planner="qdmp")
        assert "by sums" in result.note


def _make_fork() -> Graph:
    """Two branches of the input: one that makes it small in its first layer, one in its last."""
    small = {"strides": [8, 8]}
    parts = [
        *conv("stem", "x", "s", (4, 3, 3, 3)),
        *conv("early1", "s", "q", (1, 4, 1, 1), **small),
        *conv("early2", "q", "t", (512, 1, 3, 3)),
        *conv("early3", "t", "u", (1, 512, 3, 3)),
        *conv("late1", "s", "p", (16, 4, 3, 3)),
        *conv("late2", "p", "r", (1, 16, 1, 1), **small),
        helper.make_node("Add", ["r", "u"], ["y"], name="join"),
    ]
    return make_graph(parts, {"x": (1, 3, 64, 64)}, ["y"])


def test_a_set_that_is_no_prefix_is_planned_and_priced_by_the_simulation() -> None:
    """One branch to its end on the edge, the other one cut where it is small."""
    cost = make_cost(_make_fork(), 4e6, 1e9, bandwidth=2e4)
    evaluator = Evaluator(cost, PlanOptions())
    roles = find_roles(evaluator)
    edge = least_cut(two_sides(evaluator, roles))
    assert edge is not None
    prefixes = [set(range(stop)) for stop in range(len(evaluator.outline) + 1)]
    assert edge not in prefixes
    result = find_plan(cost, planner="qdmp")
    assert result.latency_s == evaluator.latency_of(split_draft(evaluator, roles, edge))
    assert result.latency_s <= find_plan(cost, planner="neurosurgeon").latency_s


def _whole_bytes() -> int:
    evaluator = Evaluator(_boards(10**9), PlanOptions())
    return evaluator.ranges.memory(0, len(evaluator.outline), "d0").total


def _boards(edge_bytes: int) -> FakeCost:
    devices = [Device("d0", memory_bytes=edge_bytes), Device("d1")]
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=1e2)
    return FakeCost(make_chain(4, seed=3), cluster, {"d0": 1e8, "d1": 1e9})


def test_what_does_not_fit_gives_way_to_a_prefix_that_does() -> None:
    """On a slow link all would be on the edge; with little memory there the cut is earlier."""
    assert _devices(find_plan(_boards(10**9), planner="qdmp")) == ["d0"]
    for planner in ("qdmp", "neurosurgeon"):
        assert _devices(find_plan(_boards(_whole_bytes() - 1), planner=planner))[-1] == "d1"


def test_qdmp_may_have_to_keep_the_whole_network() -> None:
    """As in the original; where the edge has no room for it, this is said with what to do."""
    options = PlanOptions(method={"qdmp.whole": "yes"})
    assert find_plan(_boards(10**9), planner="qdmp", options=options)
    with pytest.raises(InfeasibleError, match=r"does not fit on device 'd0'.*qdmp\.whole=no"):
        find_plan(_boards(_whole_bytes() - 1), planner="qdmp", options=options)


def test_layers_stay_where_their_tensors_must() -> None:
    """A tensor that is kept on the edge is made and read there."""
    graph = make_chain(4)
    kept = graph.layers[1].outputs[0]
    for planner in ("cloud_only", "neurosurgeon", "qdmp"):
        options = PlanOptions(keep_on={kept: "d0"})
        result = find_plan(_camera(graph, 1e9), planner=planner, options=options)
        place = {n: s.shards[0].device for s in result.plan.stages for n in s.layers}
        assert place[graph.layers[1].name] == place[graph.layers[2].name] == "d0"
