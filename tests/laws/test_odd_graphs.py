"""Planners on networks of odd shapes: always a plan that computes what the whole network does."""

from __future__ import annotations

from functools import cache, partial
from random import Random

import pytest
from hypothesis import given, settings

from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster
from partita.compile import check_plan, compile_plan
from partita.errors import ModelError
from partita.exactness.compare import check_exactness, tolerance_of
from partita.graph import Graph, load_graph
from partita.plan import Identity, Plan, Shard, Stage
from partita.planners import OBJECTIVES, PlanOptions, find_plan, get_planner, planner_names
from partita.regions import Region
from tests.laws.odd_graphs import draw_odd_model, rows_of_constants, vision_transformer
from tests.laws.test_exactness import RANDOM
from tests.planners.fakes import make_cost

#: All but the one that tries every plan and those that learn.
QUICK = [
    name for name in planner_names() if get_planner(name).cost not in ("exponential", "training")
]
MODELS = {
    "rows of constants": rows_of_constants,
    "one head": partial(vision_transformer, 1, 8, 8, is_last=True),
    "two heads": partial(vision_transformer, 2, 8, 4),
    "four heads": partial(vision_transformer, 4, 16, 4),
}


@cache
def _load(name: str) -> Graph:
    return load_graph(MODELS[name]())


def _check(graph: Graph, rng: Random, planner: str) -> None:
    """Check a planner's plan of a network for every objective."""
    rates = [10 ** rng.uniform(5, 8) for _ in range(rng.randint(2, 4))]
    cost = make_cost(graph, *rates, bandwidth=10 ** rng.uniform(5, 9), overhead_s=1e-6)
    feeds = draw_inputs(graph.input_specs, 1, 5)
    axes = rng.choice((None, None, ("tiles",), ("rows", "output_channels")))
    for objective in OBJECTIVES:
        options = PlanOptions(objective, max_evaluations=60, axes=axes, in_flight=rng.randint(1, 3))
        result = find_plan(cost, planner=planner, options=options)
        check_plan(graph, result.plan, cost.cluster)
        compiled = compile_plan(graph, result.plan, cost.cluster)
        pieces = check_exactness(graph, compiled, feeds)
        assert max(piece.relative for piece in pieces) <= tolerance_of(graph)


@pytest.mark.parametrize("planner", QUICK)
@pytest.mark.parametrize("name", MODELS)
def test_rows_that_come_from_a_constant_alone(name: str, planner: str) -> None:
    """Rows of constants, as a class token is one, stop no planner, whoever has to make them."""
    _check(_load(name), Random(planner), planner)


@settings(max_examples=30)
@given(RANDOM)
def test_odd_networks_have_a_plan(rng: Random) -> None:
    """Every planner divides a network of odd shapes, for every objective, and exactly."""
    graph, planner = load_graph(draw_odd_model(rng)), rng.choice(QUICK)
    if any(0 in graph.tensors[name].shape for name in graph.outputs):
        with pytest.raises(ModelError, match="is empty: there is nothing to divide"):
            _check(graph, rng, planner)
    else:
        _check(graph, rng, planner)


def test_a_plan_by_hand_with_rows_of_constants() -> None:
    """A shard that owns constant rows alone compiles, waits for a request, and is exact."""
    graph = _load("rows of constants")
    (output,) = graph.outputs
    cluster = Cluster.of(("d0", "d1"), requester="d0")
    shards = tuple(
        Shard(device, {output: Region.full((1, 2, 12, 8)).with_axis(2, span)})
        for device, span in (("d1", (0, 4)), ("d0", (4, 12)))
    )
    stage = Stage("all", tuple(layer.name for layer in graph.layers), "rows", shards)
    plan = Plan(
        Identity(graph.name, graph.hash), Identity(cluster.name, cluster.hash), (stage,), "hand"
    )
    check_plan(graph, plan, cluster)
    compiled = compile_plan(graph, plan, cluster)
    pieces = check_exactness(graph, compiled, draw_inputs(graph.input_specs, 2, 5))
    assert max(piece.relative for piece in pieces) <= tolerance_of(graph)
    assert [stream.box.size for stream in compiled.program.streams if stream.target == "d1"] == [1]
