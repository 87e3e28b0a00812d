"""What published methods see, and that nothing else reaches them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from onnx import helper

from partita.cluster import Cluster, Device, Link
from partita.errors import InfeasibleError
from partita.graph import Graph
from partita.planners import Evaluator, PlanOptions, find_plan, get_planner, planner_names
from partita.planners.published.linear_view import divide_layers, fit_view, largest_share
from tests.planners.fakes import FakeCost, conv, make_chain, make_cost, make_graph, make_residual

#: These see the exact cost.
EXACT = (
    "collaborative",
    "random",
    "cloud_only",
    "edge_only",
    "neurosurgeon",
    "qdmp",
    "autosplit",
)
PUBLISHED = tuple(
    name for name in planner_names() if get_planner(name).cost == "published" and name not in EXACT
)
RATES = (1e7, 3e7, 2e7)


def _cluster(*, delay_s: float = 0.0, message_s: float = 0.0) -> Cluster:
    names = [f"d{number}" for number in range(len(RATES))]
    rates = (2e6, 4e6, 3e6)
    links = [
        Link(a, b, min(rates[i], rates[j]), latency_s=delay_s, per_message_s=message_s)
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i != j
    ]
    return Cluster.of(names, links=links)


def _straight(graph: Graph) -> FakeCost:
    names = _cluster().names
    return FakeCost(graph, _cluster(), dict(zip(names, RATES, strict=True)), overhead_s=0.0)


def _bent(graph: Graph) -> FakeCost:
    """Return costs with the line of :func:`_straight`, but steps, fixed parts and delays."""
    cluster = _cluster(delay_s=3e-3, message_s=2e-3)
    steps = FakeCost(graph, cluster, dict(zip(cluster.names, RATES, strict=True)), 1e-2, 4)
    lines = [fit_view(Evaluator(cost, PlanOptions()), cluster.names).capability
             for cost in (_straight(graph), steps)]  # fmt: skip
    rates = {name: rate * lines[0][name] / lines[1][name]
             for name, rate in steps.macs_per_s.items()}  # fmt: skip
    return replace(steps, macs_per_s=rates, _seen={})


def test_seven_methods_are_published() -> None:
    """The rivals that DistrEdge is compared with are all there."""
    assert set(PUBLISHED) == {
        "coedge", "modnn", "mednn", "deepthings", "deeperthings", "aofl", "offload",
    }  # fmt: skip


@pytest.mark.parametrize("objective", ["latency", "energy"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_only_the_line_is_seen(name: str, objective: str) -> None:
    """Profiles with one linear fit give one plan, though their exact prices differ."""
    graph = make_chain(5, seed=3)
    options = PlanOptions(objective=objective)  # type: ignore[arg-type]
    straight, bent = (
        find_plan(cost, planner=name, options=options) for cost in (_straight(graph), _bent(graph))
    )
    assert straight.plan.stages == bent.plan.stages
    assert bent.latency_s > 1.05 * straight.latency_s


def test_the_exact_cost_would_choose_otherwise() -> None:
    """The two profiles differ enough that a planner which sees all of them changes its plan."""
    graph = make_chain(5, seed=3)
    straight, bent = (
        find_plan(cost, planner="proportional_rows") for cost in (_straight(graph), _bent(graph))
    )
    assert straight.plan.stages != bent.plan.stages


def test_capability_is_the_slope_through_the_origin() -> None:
    """Work over seconds where layers are lines; a fixed part per run is not seen."""
    graph = make_chain(3, seed=1)
    cost = make_cost(graph, 1e7, 5e7, overhead_s=1.0)
    view = fit_view(Evaluator(cost, PlanOptions()), ("d0", "d1"))
    assert view.capability["d1"] == pytest.approx(5 * view.capability["d0"])
    whole = {layer.name: layer.macs + 2 * layer.output_bytes for layer in graph.layers}
    along = sum(layer.macs**2 for layer in graph.layers)
    across = sum(layer.macs * whole[layer.name] for layer in graph.layers)
    assert view.capability["d0"] == pytest.approx(1e7 * along / across)


def test_network_without_multiplications_has_work() -> None:
    """Where nothing multiplies, output elements are the work, and devices still differ."""
    pool = helper.make_node("MaxPool", ["x"], ["y"], name="p", kernel_shape=[2, 2], strides=[2, 2])
    cost = make_cost(make_graph([pool], {"x": (1, 2, 8, 8)}, ["y"]), 1e6, 2e6)
    view = fit_view(Evaluator(cost, PlanOptions()), ("d0", "d1"))
    assert view.work(0, 1) == 32
    assert view.capability["d1"] == pytest.approx(2 * view.capability["d0"])


def test_averaged_view_takes_all_for_equal() -> None:
    """Mean capability and mean bandwidth, for methods that think devices alike."""
    view = fit_view(Evaluator(_straight(make_chain(2)), PlanOptions()), ("d0", "d1", "d2"))
    mean = view.averaged()
    assert len(set(mean.capability.values())) == 1
    assert sum(mean.capability.values()) == pytest.approx(sum(view.capability.values()))
    assert list(mean.bandwidth.values()) == pytest.approx([(2e6 * 4 + 3e6 * 2) / 6] * 6)


def test_rest_runs_on_the_largest_share() -> None:
    """Of equal shares the one with more capability counts."""
    view = fit_view(Evaluator(_straight(make_residual()), PlanOptions()), ("d0", "d1", "d2"))
    assert largest_share(view, ("d0", "d1", "d2"), (2.0, 1.0, 1.0)) == "d0"
    assert largest_share(view, ("d0", "d1", "d2"), (1.0, 1.0, 1.0)) == "d1"
    draft = divide_layers(view, ("d0", "d2"), (1.0, 3.0))
    assert [stage.axis for stage in draft] == ["rows", "rows", "none"]
    assert draft[-1].devices == ("d2",)


@pytest.mark.parametrize("name", PUBLISHED)
def test_devices_that_cannot_hold_their_part_are_left_out(name: str) -> None:
    """The fastest device is too small for its part: the others do the work."""
    graph = make_chain(3)
    tiny, rest = Device("d1", memory_bytes=100), [Device("d0"), Device("d2")]
    cluster = Cluster.of([rest[0], tiny, rest[1]], bandwidth_bytes_per_s=1e9)
    cost = FakeCost(graph, cluster, {"d0": 1e7, "d1": 1e9, "d2": 2e7})
    plan = find_plan(cost, planner=name).plan
    assert "d1" not in {shard.device for stage in plan.stages for shard in stage.shards}


@pytest.mark.parametrize("name", PUBLISHED)
def test_devices_that_cannot_talk_with_all_are_left_out(name: str) -> None:
    """A device without a way back, and one whose link stands still, get nothing."""
    links = [Link(a, b, 1e8) for a in ("d0", "d1", "d2") for b in ("d0", "d1") if a != b]
    links += [Link("d0", "d3", 1e8, trace=((0.0, 0.0), (9.0, 1e8))), Link("d3", "d0", 1e8)]
    cluster = Cluster.of(["d0", "d1", "d2", "d3"], links=links)
    cost = FakeCost(make_chain(3), cluster, {"d0": 1e7, "d1": 2e7, "d2": 1e9, "d3": 1e9})
    plan = find_plan(cost, planner=name).plan
    used = {shard.device for stage in plan.stages for shard in stage.shards}
    assert used <= {"d0", "d1"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_nobody_to_compute_is_infeasible(name: str) -> None:
    """Where the requester only asks and reaches nobody, the error says so."""
    cluster = Cluster.of([Device("d0", computes=False), Device("d1")], links=[])
    with pytest.raises(InfeasibleError, match="requester 'd0'") as caught:
        find_plan(FakeCost(make_chain(2), cluster, {"d0": 1e7, "d1": 1e7}), planner=name)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("name", PUBLISHED)
def test_kept_tensor_that_nothing_reaches_is_infeasible(name: str) -> None:
    """A layer must run where no link leads: exit code 3, and the link is named."""
    cluster = Cluster.of(["d0", "d1"], links=[Link("d0", "d1", 1e8)])
    cost = FakeCost(make_chain(3), cluster, {"d0": 1e7, "d1": 1e7})
    with pytest.raises(InfeasibleError, match="from 'd1' to 'd0'"):
        find_plan(cost, planner=name, options=PlanOptions(keep_on={"t0": "d1"}))


@pytest.mark.parametrize("name", PUBLISHED)
def test_more_devices_than_rows(name: str) -> None:
    """Ten devices and eight rows: a plan, and nobody has a part of a row."""
    graph = make_graph([*conv("c0", "x", "y", (4, 4, 3, 3))], {"x": (1, 4, 8, 8)}, ["y"])
    cost = make_cost(graph, *[1e6 + number for number in range(10)], bandwidth=1e9)
    assert find_plan(cost, planner=name).latency_s > 0
