"""Requests in flight: as many as asked for, or as many as memory has room for."""

from __future__ import annotations

import itertools

import pytest

from partita.cluster import Cluster, Device
from partita.compile import build_layout
from partita.cost import CostModel
from partita.errors import OverfullError
from partita.planners import PlanOptions, Result, find_plan
from partita.planners.sizing import Wish, size_clusters
from tests.planners.fakes import make_wide

PLANNERS = ("cut", "collaborative", "best", "random", "proportional_rows", "single")


def _cost(megabytes: float, count: int = 3) -> CostModel:
    """Boards with little memory, and a network whose pieces take a megabyte each."""
    devices = [
        Device(f"d{k}", kind="raspberry-pi-3", memory_bytes=int(megabytes * 1e6))
        for k in range(count)
    ]
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=1e9, latency_s=1e-5)
    return CostModel(make_wide(16, 32, 32, 32, size=64), cluster)


def _plan(cost: CostModel, planner: str, in_flight: int) -> Result:
    options = PlanOptions("throughput", in_flight=in_flight, max_evaluations=300)
    return find_plan(cost, planner=planner, options=options)


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_plan_holds_as_many_as_there_is_room_for(planner: str) -> None:
    """Asked for 64, each planner gives a plan that fits, with its own number and price."""
    cost = _cost(9.0)
    result = _plan(cost, planner, 64)
    plan = result.plan
    assert 1 <= plan.in_flight < 64
    assert result.estimate.in_flight == plan.in_flight
    for name, use in cost.memory(build_layout(cost.graph, plan, cost.cluster)).items():
        assert use.total <= cost.cluster.device(name).memory_bytes
    assert "in flight" in result.note


@pytest.mark.parametrize("planner", ["cut", "collaborative", "best"])
def test_more_requests_are_never_worse(planner: str) -> None:
    """Twice as many requests in flight, and what they take in memory: no fewer answers."""
    cost = _cost(9.0)
    rates = [_plan(cost, planner, count).estimate.images_per_second for count in (1, 2, 4, 8, 16)]
    assert all(more >= fewer * 0.99 for fewer, more in itertools.pairwise(rates))


def test_enough_memory_takes_all_requests() -> None:
    """Nothing is said where all that were asked for fit."""
    result = _plan(_cost(1000.0), "collaborative", 16)
    assert result.plan.in_flight == 16
    assert "in flight" not in result.note


def test_one_request_that_does_not_fit_is_refused() -> None:
    """What lacks is told for one request, which is the least there can be."""
    with pytest.raises(OverfullError, match="No plan found"):
        _plan(_cost(4.0, count=1), "single", 64)


def test_a_wish_is_not_refused_for_too_many_requests() -> None:
    """As many requests as boards were thought to need do not fit: fewer are planned for."""
    (sized,) = size_clusters(
        _cost(9.0), Wish(per_second=0.01), "collaborative", in_flight=64, most=4
    )
    assert sized.is_met
