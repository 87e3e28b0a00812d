"""Published methods on any network: sound plans or clear errors, and the whole network's answer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster, Device, Link
from partita.compile import check_plan, compile_plan
from partita.errors import InfeasibleError
from partita.exactness.compare import check_exactness, tolerance_of
from partita.graph import Graph, load_graph
from partita.planners import PlanOptions, find_plan
from tests.laws.graphs import draw_model
from tests.laws.test_exactness import RANDOM
from tests.planners.fakes import FakeCost
from tests.planners.published.test_linear_view import PUBLISHED


def _draw_cost(rng: Random, graph: Graph) -> FakeCost:
    """Return one to nine unequal devices; links may be missing, memory may be short."""
    names = [f"d{number}" for number in range(rng.choice((1, 2, 3, 5, 9)))]
    likely = rng.choice((1.0, 1.0, 0.8))
    links = [
        Link(a, b, 10 ** rng.uniform(5, 8), rng.choice((0.0, 1e-3)), rng.choice((0.0, 1e-3)))
        for a in names
        for b in names
        if a != b and rng.random() < likely
    ]
    short = sum(layer.weight_bytes for layer in graph.layers) // 2 + 2000
    devices = [
        Device(
            name,
            memory_bytes=rng.choice((10**9, 10**9, short)),
            computes=name != "d0" or len(names) == 1 or rng.random() < 0.7,
        )
        for name in names
    ]
    cluster = Cluster.of(devices, links=links)
    return FakeCost(graph, cluster, {name: 10 ** rng.uniform(6, 8) for name in names})


@pytest.mark.slow
@settings(max_examples=30)
@given(RANDOM)
def test_plans_of_published_methods_are_exact(rng: Random) -> None:
    """Every method's plan keeps the rules and its bound; the divided network answers as whole."""
    graph = load_graph(draw_model(rng))
    cost = _draw_cost(rng, graph)
    kept = {rng.choice(graph.layers).outputs[0]: cost.cluster.requester}
    objective = rng.choice(("latency", "energy"))
    options = PlanOptions(objective, keep_on=kept if rng.random() < 0.3 else {})  # type: ignore[arg-type]
    exact = rng.choice(PUBLISHED)
    for name in PUBLISHED:
        try:
            result = find_plan(cost, planner=name, options=options)
        except InfeasibleError:
            continue
        check_plan(graph, result.plan, cost.cluster)
        assert result.lower_bound_s <= result.latency_s
        if name == exact:
            compiled = compile_plan(graph, result.plan, cost.cluster)
            found = check_exactness(graph, compiled, draw_inputs(graph.input_specs, 1, 5))
            assert max(one.relative for one in found) <= tolerance_of(graph)
