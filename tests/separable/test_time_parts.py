"""What an answer's time goes into."""

import pytest

from partita.cost import CostModel
from partita.graph import Graph, load_graph
from partita.planners import find_plan
from partita.separable.architecture import Architecture
from partita.separable.graph import build_graph
from partita.separable.policy import Decision, Policy
from partita.separable.time_parts import TIME_PARTS, TimePart, time_parts
from partita.simulation import predict
from tests.separable.placed import PI3, make_cost, placed_plan

POLICY = Policy((Decision(9), Decision(16), Decision(7)), staleness=2)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Four groups that all send in every window."""
    architecture = Architecture.parse("4x4d-20", groups=4, image=(3, 16, 16))
    return load_graph(build_graph(architecture, POLICY))


def _parts(cost: CostModel, devices: str) -> tuple[dict[TimePart, float], float]:
    plan = placed_plan(cost, devices.split())
    report = predict(cost, plan)
    return time_parts(report), report.quantile_s(0.5)


def test_parts_are_the_whole_latency(graph: Graph) -> None:
    """They add up to it, and none of them is negative."""
    for latency_s in (0.0, 2e-3):
        parts, whole_s = _parts(make_cost(graph, *[PI3] * 4, latency_s=latency_s), "d0 d1 d2 d3")
        assert set(parts) == set(TIME_PARTS)
        assert min(parts.values()) >= 0
        assert sum(parts.values()) == pytest.approx(whole_s)


def test_alone_an_answer_waits_for_nobody(graph: Graph) -> None:
    """On the requester alone all of it is computing."""
    cost = make_cost(graph, PI3)
    report = predict(cost, find_plan(cost, planner="single").plan)
    parts = time_parts(report)
    assert parts["first transmission"] == parts["aggregation"] == 0
    assert parts["compute"] == pytest.approx(report.quantile_s(0.5), rel=0.01)


def test_slow_links_are_waited_for_in_the_middle(graph: Graph) -> None:
    """The later features come, the more of the answer is aggregation."""
    quick, _ = _parts(make_cost(graph, *[PI3] * 4, latency_s=0.0, rate=1e9), "d0 d1 d2 d3")
    slow, _ = _parts(make_cost(graph, *[PI3] * 4, latency_s=0.0, rate=1e6), "d0 d1 d2 d3")
    assert slow["aggregation"] > 4 * max(quick["aggregation"], 1e-3)


def test_a_picture_that_is_elsewhere_is_sent_first(graph: Graph) -> None:
    """Where the requester computes nothing, its picture is the first transmission."""
    parts, _ = _parts(make_cost(graph, *[PI3] * 2, rate=1e6), "d1 d1 d1 d1")
    assert parts["first transmission"] > 0
