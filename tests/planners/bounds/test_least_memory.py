"""Memory that no plan does without, by hand."""

from __future__ import annotations

import pytest

from partita.cluster import Cluster, Device
from partita.errors import InfeasibleError, OverfullError
from partita.graph import Graph
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.bounds.least_memory import lacks_memory, least_part_bytes, least_weight_bytes
from tests.planners.fakes import FakeCost, make_dense, make_grouped


def _evaluator(graph: Graph, *sizes: int) -> Evaluator:
    devices = [Device(f"d{number}", memory_bytes=size) for number, size in enumerate(sizes)]
    cost = FakeCost(graph, Cluster.of(devices), {device.name: 1e6 for device in devices})
    return Evaluator(cost, PlanOptions())


def test_weights_above_all_memory_are_a_proof() -> None:
    """All weights count once, whatever the devices; the message says how much is missing."""
    graph = make_dense(3)
    evaluator = _evaluator(graph, 5000, 600)
    rounding = 5 * 2
    assert least_weight_bytes(evaluator) == graph.weight_bytes - rounding
    assert not lacks_memory(_evaluator(graph, graph.weight_bytes, 600))
    few = _evaluator(graph, 3000, 600)
    assert "the 2 devices have 3.6 kB of memory: " in lacks_memory(few)
    for planner in ("best", "single", "exhaustive"):
        with pytest.raises(InfeasibleError, match=r"No plan is possible: .* would fit") as caught:
            find_plan(few.cost, planner=planner)
        assert not isinstance(caught.value, OverfullError)


def test_what_would_fit_is_named_for_one_and_for_all() -> None:
    """One board with room for the whole network, or two with a little more each."""
    graph = make_dense(3)
    few = _evaluator(graph, *[graph.weight_bytes // 8] * 2)
    told = r"Plans would fit with \S+ \w+ on 'd\d', or with \S+ \w+ on 'd\d', \S+ \w+ on 'd\d'\.$"
    with pytest.raises(InfeasibleError, match=told):
        find_plan(few.cost)


def test_a_part_too_large_for_every_device_is_a_proof() -> None:
    """Of a layer that runs whole its input and output, of others their least part."""
    graph = make_dense(1)
    parts = [least_part_bytes(_evaluator(graph, 500), place, None) for place in range(3)]
    core = {layer.name: layer.output_bytes for layer in graph.layers}
    assert parts == [core["c0"], 2 * 64 * 4, core["fc0"]]
    few = _evaluator(graph, *[500] * 20)
    with pytest.raises(InfeasibleError, match=r"layer 'flat' takes 512 B at least .*: 12 B are"):
        find_plan(few.cost)
    # Channels of a group need some of its input only; of rows, all weights remain.
    grouped = _evaluator(make_grouped(), 10**6)
    place = grouped.outline.order.index("c1")
    weights = grouped.graph.layer("c1").weight_bytes
    assert least_part_bytes(grouped, place, ("rows",)) == weights
    one_channel = weights // 8 + 8 * 8 * 4 * (2 + 1)
    assert least_part_bytes(grouped, place, None) == min(weights, one_channel)
