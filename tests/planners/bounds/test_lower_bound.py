"""The lower bound where options let devices compute that would else not."""

from __future__ import annotations

import pytest

from partita.cluster import Cluster, Device
from partita.planners import PlanOptions, find_plan
from tests.planners.fakes import FakeCost, make_chain


@pytest.mark.parametrize("planner", ["best", "cut", "single"])
def test_layers_pinned_to_a_requester_that_does_not_compute(planner: str) -> None:
    """What runs there for the sake of a kept tensor counts: the bound is not above the plan."""
    cluster = Cluster.of([Device("d0", computes=False), Device("d1")], bandwidth_bytes_per_s=1e5)
    cost = FakeCost(make_chain(2), cluster, {"d0": 1e8, "d1": 1e6})
    options = PlanOptions(keep_on={"t0": "d0"})
    result = find_plan(cost, planner=planner, options=options)
    assert result.lower_bound_s <= result.latency_s * (1 + 1e-9)
