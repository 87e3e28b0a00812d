"""Plans with bits: who reads them computes with the quantised graph."""

from __future__ import annotations

import numpy as np
import pytest

from partita.cluster import Cluster, Device
from partita.compile import build_layout, check_plan, compile_plan, float_plan, planned_graph
from partita.cost import CostModel
from partita.errors import ClusterError, PlanError
from partita.exactness.interpret import run_program
from partita.graph import Graph
from partita.graph.whole import WholeModel
from partita.plan import Identity, Plan
from partita.planners import PlanOptions, find_plan
from partita.profile import MeasureOptions, measure_profile
from partita.quantisation import LayerBits, quantize
from partita.simulation import predict
from tests.compile.samples import halves, pair, small_graph, whole
from tests.quantisation import networks

BITS = {
    "x": LayerBits(activation=8, low=-4.0, high=4.0),
    "first": LayerBits(weight=4, activation=6, low=-20.0, high=20.0),
    "second": LayerBits(weight=3),
}


def _plan(graph: Graph) -> Plan:
    """Return the plan by halves for the quantised graph; ``left`` rounds the input."""
    cluster = pair()
    plan = halves(graph, cluster, bits=dict(graph.bits))
    first = whole("s", ("x.quantize",), "left")
    return Plan(
        Identity(graph.name, graph.hash), plan.cluster, (first, *plan.stages), "by hand",
        bits=plan.bits,
    )  # fmt: skip


def test_whoever_gets_the_float_graph_computes_with_bits() -> None:
    """Layouts, fragments and checks are of the quantised graph, whichever graph is given."""
    base, cluster = small_graph(), pair()
    graph = quantize(base, BITS)
    plan = _plan(graph)
    assert planned_graph(base, plan).hash == graph.hash
    assert planned_graph(graph, plan) is graph
    check_plan(base, plan, cluster)
    assert build_layout(base, plan, cluster).program == build_layout(graph, plan, cluster).program
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 2, 8, 4), np.float32)}
    answer, _ = run_program(compile_plan(base, plan, cluster), feeds)
    expected = WholeModel(graph).run(feeds)["y"]
    assert np.allclose(answer["y"], expected, atol=1e-6)
    assert not np.allclose(answer["y"], WholeModel(base).run(feeds)["y"], atol=1e-3)


def test_a_plan_without_bits_is_of_the_float_graph() -> None:
    """A graph that was quantised meanwhile makes no difference."""
    base, cluster = small_graph(), pair()
    graph = quantize(base, BITS)
    assert planned_graph(graph, halves(base, cluster)) is base
    assert planned_graph(base, halves(base, cluster)) is base


def test_the_same_division_without_bits() -> None:
    """Stages lose what rounds inputs; boxes of what it makes become the input's."""
    base, cluster = small_graph(), pair()
    graph = quantize(base, BITS)
    exact = float_plan(base, _plan(graph))
    assert [stage.layers for stage in exact.stages] == [("first",), ("second",), ("mean",)]
    check_plan(base, exact, cluster)
    assert exact == float_plan(graph, _plan(graph))


def test_bits_that_do_not_fit_are_refused() -> None:
    """One line, from whichever side the plan is read."""
    base, cluster = small_graph(), pair()
    plan = halves(base, cluster, bits={"first": LayerBits(weight=5)})
    for read in (check_plan, compile_plan, build_layout):
        with pytest.raises(PlanError, match="'first': weight of 5 bits, allowed: 2, 3, 4, 6, 8"):
            read(base, plan, cluster)


def test_profiles_of_the_float_graph_price_the_quantised_one() -> None:
    """Layers cost what they were measured to, rounding an input what copying it takes."""
    base = networks.small_graph()
    graph = quantize(base, {**BITS, "second": LayerBits(weight=8)})
    profile = measure_profile(base, MeasureOptions(repeats=1, rounds=1, budget_s=0.01))
    cluster = Cluster.of(["left", "right"])
    cost = CostModel(graph, cluster, profiles=profile)
    float_cost = CostModel(base, cluster, profiles=profile)
    found = find_plan(cost, planner="single")
    assert found.plan.bits == graph.bits
    latency_s = predict(cost, found.plan).latencies_s[0]
    usual_s = predict(float_cost, find_plan(float_cost, planner="single").plan).latencies_s[0]
    assert usual_s <= latency_s < 3 * usual_s
    with pytest.raises(PlanError, match=r"make costs of planned_graph\(graph, plan\)"):
        float_cost.layout(found.plan)
    other = quantize(networks.small_graph(), BITS)
    other.base.constants["w1"][0] += 1  # type: ignore[union-attr]
    with pytest.raises(ClusterError, match="is of model"):
        CostModel(other, cluster, profiles=profile)


def test_planning_again_keeps_the_bits() -> None:
    """Every planner's plan of a quantised graph holds the bits that make it from the float one."""
    base = networks.small_graph()
    graph = quantize(base, BITS)
    devices = [Device(name, kind="raspberry-pi-4") for name in ("left", "right")]
    cost = CostModel(graph, Cluster.of(devices))
    plan = find_plan(cost, planner="equal_rows", options=PlanOptions(seed=1)).plan
    assert plan.bits == graph.bits
    assert planned_graph(base, plan).hash == plan.model.hash
