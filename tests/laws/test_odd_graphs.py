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
from partita.planners import (
    OBJECTIVES,
    Evaluator,
    PlanOptions,
    find_plan,
    get_planner,
    planner_names,
)
from partita.planners.search.moves import Moves
from partita.regions import Region
from tests.laws.odd_graphs import (
    channels_last,
    draw_odd_model,
    rows_of_constants,
    u_net,
    vision_transformer,
)
from tests.laws.test_exactness import RANDOM
from tests.planners.fakes import make_cost
from tests.planners.random_drafts import draw_draft

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
#: Networks whose rows have columns in some layers only.
MIXED = {"channels last": channels_last, "U-Net": u_net}


@cache
def _load(name: str) -> Graph:
    return load_graph({**MODELS, **MIXED}[name]())


def _check(graph: Graph, rng: Random, planner: str) -> None:
    """Check a planner's plan of a network for every objective."""
    rates = [10 ** rng.uniform(5, 8) for _ in range(rng.randint(2, 4))]
    cost = make_cost(graph, *rates, bandwidth=10 ** rng.uniform(5, 9), overhead_s=1e-6)
    feeds = draw_inputs(graph.input_specs, 1, 5)
    axes = rng.choice((None, ("tiles",), ("rows", "output_channels")))
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


def _draw_graph(rng: Random) -> Graph:
    """Draw a network of odd shapes, or take one of those whose columns end."""
    name = rng.choice((*MIXED, None))
    return load_graph(draw_odd_model(rng)) if name is None else _load(name)


@pytest.mark.slow
@settings(max_examples=40)
@given(RANDOM)
def test_moves_of_odd_networks_are_sound(rng: Random) -> None:
    """Whatever a search tries can be said as a plan, and keeps the rules."""
    graph = _draw_graph(rng)
    if any(0 in graph.tensors[name].shape for name in graph.outputs):
        return
    cost = make_cost(graph, *[1e7] * 4)
    evaluator = Evaluator(cost, PlanOptions())
    moves = Moves(evaluator.outline, evaluator.devices, [1.0] * 4)
    draft = draw_draft(evaluator, rng, longest=rng.randint(1, len(graph.layers)))
    for other in (draft, *moves.structural(draft)):
        check_plan(graph, evaluator.problem.plan(other), cost.cluster)


@pytest.mark.slow
@settings(max_examples=25)
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
