"""Sums over parts of inputs, in the search: where they help, where they stay out, and for whom."""

from __future__ import annotations

import pytest

from partita.graph import Graph, load_graph
from partita.planners import DraftStage, Evaluator, PlanOptions, find_plan
from partita.planners.search.input_splits import InputSplits
from partita.planners.search.local_search import LocalSearch
from partita.planners.search.moves import Moves
from partita.planners.simple.rows import divide_rows
from tests.encoders import make_encoder
from tests.planners.fakes import FakeCost, dense, make_chain, make_cost, make_dense, make_graph

#: What a search did before inputs were divided.
WITHOUT = ("rows", "tiles", "output_channels")


def encoder_cost(bandwidth: float, *rates: float) -> FakeCost:
    """Return the costs of a small encoder of one token, so that there are no rows to divide."""
    graph = load_graph(make_encoder(width=128, heads=8, tokens=1, blocks=1))
    return make_cost(graph, *rates, bandwidth=bandwidth, overhead_s=1e-6)


def search_for(evaluator: Evaluator) -> InputSplits:
    """Return the last step of a search on all devices."""
    moves = Moves(evaluator.outline, evaluator.devices, [1.0] * len(evaluator.devices))
    return InputSplits(evaluator, LocalSearch(evaluator, moves), moves)


def test_heads_and_sums_are_chosen_where_links_are_fast() -> None:
    """An encoder is divided by heads and features, and that is faster than without sums."""
    cost = encoder_cost(1e9, 2e7, 1e7, 3e7)
    found = find_plan(cost, planner="best")
    before = find_plan(cost, planner="best", options=PlanOptions(axes=WITHOUT))
    axes = [stage.axis for stage in found.plan.stages]
    assert axes.count("input_channels") >= 2
    assert axes.count("output_channels") >= 2
    assert found.estimate.latency_s < 0.9 * before.estimate.latency_s


def test_small_networks_are_tried_with_all_sums() -> None:
    """Of one dense layer whose input is long `exhaustive`, and so `best`, divides the input."""
    graph = make_graph(dense("fc", "x", "y", (4000, 10)), {"x": (1, 4000)}, ["y"])
    cost = make_cost(graph, 1e7, 1e7, bandwidth=2e7, overhead_s=1e-6)
    for planner in ("exhaustive", "best"):
        (stage,) = find_plan(cost, planner=planner).plan.stages
        assert stage.axis == "input_channels"
        assert [shard.device for shard in stage.merge] == ["d0"]


def test_nothing_is_tried_where_links_are_slow() -> None:
    """Where one partial result takes longer than the layer, no draft is priced."""
    evaluator = Evaluator(encoder_cost(1e4, 2e7, 2e7), PlanOptions())
    whole = (DraftStage(0, len(evaluator.outline), "none", ("d0",)),)
    before = evaluator.budget.evaluations
    assert list(search_for(evaluator).improve(whole)) == []
    assert evaluator.budget.evaluations == before


def test_sums_everywhere_are_priced_only_where_they_may_win() -> None:
    """What all sums could save at most is worth pricing beside one device, not beside rows."""
    evaluator = Evaluator(
        make_cost(make_chain(6, seed=3), *[1e7] * 4, bandwidth=1e6, overhead_s=1e-6), PlanOptions()
    )
    rows = divide_rows(evaluator, [1.0] * 4)
    before = evaluator.budget.evaluations
    assert list(search_for(evaluator).improve(rows)) == []
    assert evaluator.budget.evaluations == before
    whole = (DraftStage(0, len(evaluator.outline), "none", ("d0",)),)
    tried = list(search_for(evaluator).improve(whole))
    assert any(draft[0].axis != "none" and draft[-1].axis == "input_channels" for draft in tried)


@pytest.mark.parametrize("graph", [make_chain(4, seed=1), make_dense(4)], ids=["chain", "dense"])
@pytest.mark.parametrize("bandwidth", [1e6, 1e8])
def test_plans_are_never_worse_than_without(graph: Graph, bandwidth: float) -> None:
    """The step begins where the search without it ends."""
    cost = make_cost(graph, 2e7, 1e7, 5e6, bandwidth=bandwidth, overhead_s=1e-5)
    latency = {}
    for axes in (None, WITHOUT):
        options = PlanOptions(axes=axes, max_evaluations=400)
        latency[axes] = find_plan(cost, planner="best", options=options).estimate.latency_s
    assert latency[None] <= latency[WITHOUT]


def test_the_number_of_evaluations_holds() -> None:
    """What was spent before leaves nothing for sums."""
    evaluator = Evaluator(encoder_cost(1e9, 2e7, 2e7), PlanOptions(max_evaluations=10))
    whole = (DraftStage(0, len(evaluator.outline), "none", ("d0",)),)
    search = search_for(evaluator)
    evaluator.budget.evaluations = 10
    assert list(search.improve(whole)) == []
    assert evaluator.budget.evaluations == 10


def test_an_axis_that_is_not_allowed_stays_out() -> None:
    """Who allows input channels alone gets sums alone; who leaves them out gets none."""
    cost = encoder_cost(1e9, 2e7, 2e7)
    for axes in (("input_channels",), WITHOUT):
        plan = find_plan(cost, planner="best", options=PlanOptions(axes=axes)).plan
        divided = {stage.axis for stage in plan.stages} - {"none", "everywhere"}
        assert divided <= set(axes)
        assert ("input_channels" in divided) == ("input_channels" in axes)


def test_joined_stages_move_their_shares_together() -> None:
    """A row more of heads is one more of the sum over them: the two never come apart."""
    evaluator = Evaluator(encoder_cost(1e9, 2e7, 2e7), PlanOptions())
    heads = DraftStage(0, 14, "output_channels", ("d0", "d1"), (0, 4, 8))
    summed = DraftStage(14, 15, "input_channels", ("d0", "d1"), (0, 4, 8), merge=("d0",))
    moved = Moves.shift_one((heads, summed), 0, ("d0", "d1"), 1)
    assert moved is not None
    assert [stage.cuts for stage in moved] == [(0, 3, 8), (0, 3, 8)]
    assert evaluator.outline.order[14] == "projected0.product"
