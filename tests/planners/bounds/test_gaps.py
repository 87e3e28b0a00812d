"""Where elements depend on all that is before: what lies before and after, and what that costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from partita.cluster import Cluster
from partita.graph import Graph
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.bounds.gaps import Gap, find_gaps
from partita.planners.bounds.lower_bound import lower_bound_s
from partita.planners.bounds.minimum_costs import MinimumCosts
from tests.planners.fakes import (
    FakeCost,
    conv,
    make_chain,
    make_cost,
    make_dense,
    make_gated,
    make_graph,
)


def _gaps(graph: Graph, *rates: float, latency: float = 1e-6) -> list[Gap]:
    cost = make_cost(graph, *(rates or (1e7, 1e7)), latency=latency)
    return find_gaps(MinimumCosts(Evaluator(cost, PlanOptions())))


def test_convolutions_alone_have_none() -> None:
    """Their windows see a part of the map."""
    assert _gaps(make_chain(4, height=8, seed=1)) == []


def test_dense_layers_are_apart() -> None:
    """Sums of parts are made before the gap, whole neurons after it: the layer is on one side."""
    (gap,) = _gaps(make_dense())
    assert gap.apart == "fc0"
    assert gap.before == {"c0", "flat"}
    assert gap.after == {"fc1", "fc2"}


def test_gates_wait_for_the_whole_map() -> None:
    """Squeeze and excitation: the mean over space, then what is scaled with it."""
    gaps = _gaps(make_gated())
    assert any("c0" in gap.before and {"scale", "c1"} <= gap.after for gap in gaps)


def test_layers_that_step_over_rows_need_not_all() -> None:
    """What the tensor does not need of a layer is not before the gap, if others do need it."""
    parts = [
        *conv("c0", "x", "a", (4, 3, 3, 3)),
        *conv("half", "a", "b", (4, 4, 1, 1), strides=[2, 2]),
        *conv("all", "b", "g", (4, 4, 2, 2), pads=[0] * 4),
        *conv("c1", "a", "d", (4, 4, 3, 3)),
        *conv("mul", "d", "y", (4, 4, 1, 1)),
    ]
    graph = make_graph(parts, {"x": (1, 3, 4, 4)}, ["g", "y"])
    assert all("c0" not in gap.before for gap in _gaps(graph))


def test_a_gap_is_no_longer_than_one_device_takes_for_what_is_before() -> None:
    """A fast device need not wait for others."""
    slow = _gaps(make_dense(), 1e6, 1e6, latency=1.0)[0].delay_s
    fast = _gaps(make_dense(), 1e6, 4e6, latency=1.0)[0].delay_s
    assert slow == pytest.approx(4 * fast)
    assert _gaps(make_dense(), latency=1e-6)[0].delay_s == 1e-6


@pytest.mark.parametrize("make", [make_dense, make_gated])
def test_gaps_count_their_delay(make: Callable[[], Graph]) -> None:
    """Beside the delays of input and answer each gap costs one, less what its device does in it."""
    graph = make()
    names = [f"d{number}" for number in range(8)]
    cluster = Cluster.of(names, bandwidth_bytes_per_s=1e12, latency_s=1e-3)
    cost = FakeCost(graph, cluster, dict.fromkeys(names, 2e4), overhead_s=0.0)
    near = Cluster.of(names, bandwidth_bytes_per_s=1e12, latency_s=0.0)
    bound, fluid = (
        lower_bound_s(Evaluator(replace(cost, cluster=each, _seen={}), PlanOptions()))
        for each in (cluster, near)
    )
    # Of the delays of input and answer the requester loses nothing: 7/8 of both are counted.
    assert bound - fluid > (2 + 0.8) * 7 / 8 * 1e-3
    assert bound <= find_plan(cost, options=PlanOptions(max_evaluations=50)).latency_s
