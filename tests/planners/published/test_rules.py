"""The linear view and the published methods' rules on cases computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from math import inf

import pytest

from partita.cluster import Cluster, Device, Link
from partita.errors import InfeasibleError
from partita.planners import Draft, Evaluator, PlanOptions, find_plan
from partita.planners.published import aofl, coedge, deeperthings, deepthings, mednn, modnn, offload
from partita.planners.published.fused_blocks import FusedBlocks
from partita.planners.published.linear_view import LinearView, fit_view
from tests.planners.fakes import FakeCost, conv, make_cost, make_dense, make_graph

_METHODS = (aofl, coedge, deeperthings, deepthings, mednn, modnn, offload)
_MACS = 4 * 4 * 9 * 8 * 8


def _view(*rates: float, layers: int = 3, bandwidth: float = 1e6) -> LinearView:
    """Return a view of equal convolutions whose capabilities are the rates, in MACs per second."""
    parts = [
        part for n in range(layers) for part in conv(f"c{n}", f"t{n}", f"t{n + 1}", (4, 4, 3, 3))
    ]
    graph = make_graph(parts, {"t0": (1, 4, 8, 8)}, [f"t{layers}"])
    cost = make_cost(graph, *rates, bandwidth=bandwidth)
    view = fit_view(Evaluator(cost, PlanOptions()), cost.cluster.names)
    return replace(view, capability=dict(zip(view.devices, rates, strict=True)))


def test_capability_is_the_slope_through_the_origin() -> None:
    """Work is multiply-accumulates; the fixed cost of fragments is not in it."""
    graph = make_graph([*conv("c", "x", "y", (4, 4, 3, 3))], {"x": (1, 4, 8, 8)}, ["y"])
    view = fit_view(
        Evaluator(make_cost(graph, 1e6, 3e6, overhead_s=5.0), PlanOptions()), ("d0", "d1")
    )
    # The hand-made cost counts two units per byte made, which are not the network's own work.
    whole_s = (_MACS + 2 * 1024) / 1e6
    assert view.work(0, 1) == _MACS
    assert view.capability["d0"] == pytest.approx(_MACS / whole_s)
    assert view.capability["d1"] == pytest.approx(3 * _MACS / whole_s)
    assert view.fastest == "d1"


def test_links_are_lines_through_the_origin() -> None:
    """Bytes over bandwidth, no delay; nothing to oneself; infinite without a link."""
    view = _view(1e6, 1e6)
    assert view.transfer_s("d0", "d1", 1024) == pytest.approx(1024e-6)
    assert view.transfer_s("d0", "d0", 1024) == 0.0
    assert view.transfer_s("d0", "d1", 0) == 0.0
    assert replace(view, bandwidth={}).transfer_s("d0", "d1", 1) == inf


def test_averages_hide_who_is_fast() -> None:
    """All have the mean capability and the mean bandwidth."""
    view = _view(1e6, 3e6)
    lopsided = replace(view, bandwidth={("d0", "d1"): 1e6, ("d1", "d0"): 5e6}).averaged()
    assert lopsided.capability == {"d0": 2e6, "d1": 2e6}
    assert lopsided.bandwidth == {("d0", "d1"): 3e6, ("d1", "d0"): 3e6}


def test_a_block_takes_as_long_as_its_slowest_device() -> None:
    """The second half receives the rows it lacks, and fused layers recompute the halo."""
    view = _view(1e6, 1e6)
    blocks = FusedBlocks(view, (1.0, 1.0))
    row_bytes = 4 * 8 * 4
    assert blocks.block_s(0, 1) == pytest.approx(_MACS / 2 / 1e6 + 5 * row_bytes / 1e6)
    assert blocks.block_s(0, 2) == pytest.approx(_MACS * (5 + 4) / 8 / 1e6 + 6 * row_bytes / 1e6)
    # Later blocks receive one row from the neighbour.
    assert blocks.block_s(1, 2) == pytest.approx(_MACS / 2 / 1e6 + row_bytes / 1e6)


@pytest.mark.parametrize("bandwidth", [1e4, 1e6, 1e9])
def test_fused_ends_are_the_best_of_all(bandwidth: float) -> None:
    """The dynamic program's blocks are no slower than any set of ends tried one by one."""
    blocks = FusedBlocks(_view(1e6, 2e6, layers=4, bandwidth=bandwidth), (1.0, 2.0))
    ends, seconds = blocks.best_ends("d1")

    def total_s(chosen: tuple[int, ...]) -> float:
        ranges = pairwise((0, *chosen))
        return sum(blocks.block_s(*span) for span in ranges) + blocks.rest_s(chosen[-1], "d1")

    every = [c for count in range(1, 5) for c in combinations(range(1, 5), count)]
    assert seconds == pytest.approx(min(map(total_s, every)))
    assert total_s(ends) == pytest.approx(seconds)


def test_modnn_and_mednn_differ_in_how_they_round() -> None:
    """Of eight rows at rates 1, 1, 1: thirds to the nearest cut, or dealt one by one."""
    view = _view(1e6, 1e6, 1e6)
    assert modnn.choose_draft(view)[0].widths == [3, 2, 3]
    assert mednn.choose_draft(view)[0].widths == [3, 3, 2]


def test_deepthings_leaves_the_rest_to_the_gateway() -> None:
    """The requester is the gateway, or where it does not compute, the fastest device."""
    view = _view(1e6, 9e6, layers=3, bandwidth=1e3)
    draft = deepthings.choose_draft(view)
    assert len({stage.devices for stage in draft if stage.axis == "rows"}) == 1
    assert draft[-1].devices == ("d0",)
    away = replace(view, devices=("d1",), capability={"d1": 9e6})
    assert {d for s in deepthings.choose_draft(away) for d in s.devices} == {"d1"}


def _devices(draft: Draft) -> set[str]:
    return {device for stage in draft for device in stage.devices}


@pytest.mark.parametrize("method", _METHODS)
def test_dense_layers_run_on_one_device(method: object) -> None:
    """No method of these divides what has no rows."""
    cost = make_cost(make_dense(2), 1e6, 3e6, bandwidth=1e9)
    view = fit_view(Evaluator(cost, PlanOptions()), cost.cluster.names)
    choose: Callable[[LinearView], Draft] = method.choose_draft  # type: ignore[attr-defined]
    draft = choose(view)
    first = view.outline.order.index("fc0")
    for stage in draft:
        if stage.start >= first:
            assert (stage.axis, len(stage.devices)) == ("none", 1)


@pytest.mark.parametrize("name", ["modnn", "mednn", "aofl", "coedge", "deepthings", "offload"])
def test_a_device_without_room_is_left_out(name: str) -> None:
    """The method decides again without it; where none has room the message says what would fit."""
    graph = _view(1e6).outline.graph
    small, large = Device("d1", memory_bytes=10), Device("d2")
    cost = FakeCost(
        graph, Cluster.of([Device("d0"), small, large]), {"d0": 1e5, "d1": 1e9, "d2": 1e6}
    )
    plan = find_plan(cost, planner=name).plan
    assert "d1" not in {shard.device for stage in plan.stages for shard in stage.shards}
    full = replace(cost, cluster=Cluster.of([Device("d0", memory_bytes=10), small]), _seen={})
    with pytest.raises(InfeasibleError, match=r"No plan is possible: .* on 'd"):
        find_plan(full, planner=name)


@pytest.mark.parametrize("name", ["modnn", "deeperthings", "offload"])
def test_devices_that_cannot_talk_are_left_out(name: str) -> None:
    """A fast device with a link in one direction only takes no part; with none there is no plan."""
    graph = _view(1e6).outline.graph
    links = [Link("d0", "d1", 1e9), Link("d1", "d0", 1e9), Link("d0", "d2", 1e9)]
    rates = {"d0": 1e5, "d1": 1e6, "d2": 1e9}
    cost = FakeCost(graph, Cluster.of(["d0", "d1", "d2"], links=links), rates)
    plan = find_plan(cost, planner=name).plan
    assert "d2" not in {shard.device for stage in plan.stages for shard in stage.shards}
    with pytest.raises(
        InfeasibleError, match="requester 'd0' may not compute, and no device that may has links"
    ):
        find_plan(cost, planner=name, options=PlanOptions(devices=("d2",)))
