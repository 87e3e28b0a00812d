"""CoEdge's shares: by hand, with dropped devices, and the original's goal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partita.cluster import Cluster
from partita.errors import InfeasibleError, PlanError
from partita.graph import Graph
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.published.coedge import (
    EnergyGoal,
    find_beyond,
    find_least_share,
    find_shares,
    find_watts,
    list_halos,
)
from partita.planners.published.linear_view import LinearView, fit_view
from tests.planners.fakes import FakeCost, conv, make_cost, make_graph


def _graph(*, height: int = 16, layers: int = 2, kernel: int = 3) -> Graph:
    names = ["x", *(f"t{number}" for number in range(layers))]
    shape = (4, 4, kernel, kernel)
    parts = [p for i in range(layers) for p in conv(f"c{i}", names[i], names[i + 1], shape)]
    return make_graph(parts, {"x": (1, 4, height, 16)}, [names[-1]])


def _view(graph: Graph, *rates: float, bandwidth: float = 1e12) -> LinearView:
    cost = make_cost(graph, *rates, bandwidth=bandwidth)
    return fit_view(Evaluator(cost, PlanOptions()), cost.cluster.names)


def test_free_links_give_shares_by_capability() -> None:
    """Where transfers take no time, all devices finish together."""
    assert find_shares(_view(_graph(), 1e6, 3e6)) == pytest.approx((0.25, 0.75), abs=1e-3)


def test_shares_by_hand() -> None:
    """One layer: input sent and result gathered weigh as the closed form says."""
    view = _view(_graph(layers=1, kernel=1), 1e6, 1e6, bandwidth=2e5)
    work_s = view.compute_s("d0", view.work(0, 1))
    bytes_s = 4 * 16 * 16 * 4 / 2e5
    # d0 is the requester and the home, so that only d1 sends. Seconds fall with d1's share until
    # both compute as long as each other, or from the start rise with it.
    found = find_shares(view)
    expected = 0.5 if work_s > 2 * bytes_s else 0.0
    assert found[1] == pytest.approx(expected)
    slow = find_shares(replace(view, bandwidth=dict.fromkeys(view.bandwidth, 1e3)))
    fast = find_shares(replace(view, bandwidth=dict.fromkeys(view.bandwidth, 1e9)))
    assert slow == pytest.approx((1.0, 0.0))
    assert fast == pytest.approx((0.5, 0.5), abs=1e-3)


def test_halo_of_a_window() -> None:
    """A 5x5 window reads two rows of either neighbour; the requester sends the first layer's."""
    view = _view(_graph(kernel=5), 1e6, 1e6)
    assert find_beyond(view, 1) == {"t0": (16, 2.0, 2.0)}
    first, second = list_halos(view)
    assert (first.above_bytes, first.below_bytes) == (0.0, 0.0)
    assert second.above_bytes == second.below_bytes == 2 * 4 * 16 * 4
    assert second.share == pytest.approx(2 / 16)


def test_pooling_has_no_halo() -> None:
    """A window as wide as its stride stays within its own rows; a strided 3x3 looks up only."""
    parts = [*conv("c", "x", "t", (4, 4, 3, 3), strides=[2, 2])]
    view = _view(make_graph(parts, {"x": (1, 4, 16, 16)}, ["t"]), 1e6, 1e6)
    assert find_beyond(view, 0) == {"x": (16, 1.0, 0.0)}


def test_shares_below_the_halo_are_dropped() -> None:
    """A device too slow for the rows that its neighbours ask for gets nothing."""
    graph = _graph(height=8, kernel=5)
    shares = find_shares(_view(graph, 1e6, 1e4, 1e6))
    assert shares[1] == 0.0
    assert shares[0] == pytest.approx(0.5, abs=1e-3)
    many = find_shares(_view(graph, *[1e6] * 12))
    assert [share for share in many if share] == pytest.approx([2 / 8] * 4, rel=0.01)


def test_tiny_layers_do_not_drop_anybody() -> None:
    """Only layers that matter say how small a share may be."""
    halos = list_halos(_view(_graph(), 1e6, 1e6))
    assert find_least_share(halos) == pytest.approx(1 / 16)
    tiny = replace(halos[1], work=1e-6, share=0.5)
    assert find_least_share([*halos, tiny]) == pytest.approx(1 / 16)
    assert find_least_share([]) == 0.0


def test_energy_goes_to_the_thrifty_until_the_deadline() -> None:
    """Without a deadline the thriftiest does all; with one the others help as much as needed."""
    view = _view(_graph(), 1e6, 1e6)
    watts = {"d0": 1.0, "d1": 5.0}
    assert find_shares(view, EnergyGoal(watts, None)) == pytest.approx((1.0, 0.0))
    whole_s = view.compute_s("d0", view.work(0, 2))
    shares = find_shares(view, EnergyGoal(watts, 0.75 * whole_s))
    assert shares == pytest.approx((0.75, 0.25), abs=1e-3)
    with pytest.raises(InfeasibleError, match="no deadline of 1e-06 s") as caught:
        find_shares(view, EnergyGoal(watts, 1e-6))
    assert caught.value.subject == "coedge.deadline_s"


def test_watts_are_read_from_the_energy_of_computing() -> None:
    """The test's cost model gives 1 W to the first device and 2 W to the second."""
    cost = make_cost(_graph(), 1e6, 1e6)
    evaluator = Evaluator(cost, PlanOptions(keep_on={"t0": "d0"}))
    assert find_watts(evaluator, "d0") == pytest.approx(1.0)
    assert find_watts(evaluator, "d1") == pytest.approx(2.0)
    alone = Cluster.of(["d0", "d1"], links=[])
    lonely = Evaluator(FakeCost(_graph(), alone, {"d0": 1e6, "d1": 1e6}), PlanOptions())
    assert find_watts(lonely, "d1") == 0.0


def test_deadline_of_the_options_counts() -> None:
    """A tighter deadline costs more energy and less time."""
    cost = make_cost(_graph(), 1e6, 1e6, bandwidth=1e9, overhead_s=0.0)
    results = [
        find_plan(cost, planner="coedge", options=PlanOptions("energy", method=method))
        for method in ({}, {"coedge.deadline_s": "0.06"})
    ]
    assert results[1].estimate.energy_joules > results[0].estimate.energy_joules
    assert results[1].latency_s < results[0].latency_s


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0"])
def test_deadline_must_be_a_time(text: str) -> None:
    """What is no number of seconds above 0 is refused in one line."""
    options = PlanOptions("energy", method={"coedge.deadline_s": text})
    with pytest.raises(PlanError, match="must be above 0 s"):
        find_plan(make_cost(_graph(), 1e6), planner="coedge", options=options)
