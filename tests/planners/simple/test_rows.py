"""Rows in equal and in proportional shares: what each divides, and where it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import OverfullError
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.simple.rows import (
    MANY_STAGES,
    MOST_ENDS,
    device_speeds,
    divide_rows,
    plan_equal_rows,
    plan_proportional_rows,
    row_ends,
)
from tests.planners.fakes import (
    FakeCost,
    make_chain,
    make_cost,
    make_gated,
    make_graph,
    make_wide,
    unlinked,
)


def _evaluator(cost: FakeCost) -> Evaluator:
    return Evaluator(cost, PlanOptions())


def _widths(stage: DraftStage) -> list[int]:
    return [b - a for a, b in zip(stage.cuts, stage.cuts[1:], strict=False)]


def _divided(draft: Draft) -> list[DraftStage]:
    return [stage for stage in draft if stage.axis == "rows"]


def test_equal_shares_whatever_the_speeds() -> None:
    """Of eight rows each of two devices has four, though one is much faster."""
    evaluator = _evaluator(make_cost(make_chain(3, seed=1), 1e7, 4e7, bandwidth=1e9))
    stages = _divided(plan_equal_rows(evaluator).draft)
    assert stages
    assert all(max(_widths(stage)) - min(_widths(stage)) <= 1 for stage in stages)


def test_shares_in_proportion_to_speeds() -> None:
    """A device three times as fast has three times the rows."""
    cost = make_cost(make_chain(3, seed=1), 1e7, 3e7, bandwidth=1e9, overhead_s=0.0)
    stages = _divided(plan_proportional_rows(_evaluator(cost)).draft)
    assert stages
    assert all(3 * slow == fast for slow, fast in map(_widths, stages))


def test_speed_is_whole_networks_per_second() -> None:
    """Speeds are what the whole network takes, fixed costs included."""
    cost = make_cost(make_chain(2), 1e7, 2e7, overhead_s=0.0)
    slow, fast = device_speeds(_evaluator(cost))
    assert fast == pytest.approx(2 * slow)


def test_the_best_of_its_ends_is_taken() -> None:
    """No division that ends at another of its places, on either device, is faster."""
    evaluator = _evaluator(make_cost(make_chain(5, seed=2), 2e7, 5e7, bandwidth=2e6))
    best_s = evaluator.latency_of(divide_rows(evaluator, [1.0, 1.0]))
    for end in row_ends(evaluator):
        cuts = (0, evaluator.outline.rows(0, end) // 2, evaluator.outline.rows(0, end))
        for home in evaluator.devices:
            rest = (DraftStage(end, 5, "none", (home,)),) if end < 5 else ()
            draft = (DraftStage(0, end, "rows", evaluator.devices, cuts), *rest)
            assert best_s <= evaluator.latency_of(draft) + 1e-12


def test_a_network_without_rows_stays_whole() -> None:
    """Where nothing can be divided, the best single device takes all."""
    from numpy import ones
    from onnx import helper, numpy_helper

    weights = numpy_helper.from_array(ones((6, 3), "float32"), "w")
    graph = make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense"), weights], {"x": (1, 6)}, ["y"]
    )
    evaluator = _evaluator(make_cost(graph, 1e3, 1e6, bandwidth=1e9))
    assert plan_equal_rows(evaluator).draft == (DraftStage(0, 1, "none", ("d1",)),)


def test_means_over_space_keep_the_rows() -> None:
    """Squeeze and excitation: the mean is summed where the rows are, and rows go on after it."""
    cost = make_cost(make_gated(), 1e6, 1e6, bandwidth=1e6, overhead_s=0.0)
    draft = divide_rows(_evaluator(cost), [1.0, 1.0])
    axes = [stage.axis for stage in draft]
    assert "reduce" in axes
    assert axes.index("reduce") < len(axes) - 1 - axes[::-1].index("rows")


def test_ends_are_few() -> None:
    """However long the network, few ends are tried, the last row among them."""
    evaluator = _evaluator(make_cost(make_chain(40, seed=5), 1e7, 1e7))
    ends = row_ends(evaluator)
    assert len(ends) <= MOST_ENDS
    assert ends[-1] == 40
    assert len(divide_rows(evaluator, [1, 1])) <= MANY_STAGES + MOST_ENDS


@pytest.mark.parametrize("planner", ["equal_rows", "proportional_rows"])
def test_a_device_without_links_has_no_rows(planner: str) -> None:
    """Rows are divided among devices that can all talk with each other, however fast others are."""
    result = find_plan(unlinked(make_chain(3, seed=1)), planner=planner)
    devices = {shard.device for stage in result.plan.stages for shard in stage.shards}
    assert devices == {"d0", "d1"}


@pytest.mark.parametrize("planner", ["single", "equal_rows", "proportional_rows", "branches"])
def test_advice_that_helps(planner: str) -> None:
    """More devices are no help to planners that divide no weights: what is said helps."""
    board = Device("d0", kind="raspberry-pi-3", memory_bytes=16_000_000)
    cluster = Cluster.of([board, replace(board, name="d1"), replace(board, name="d2")])
    with pytest.raises(OverfullError, match="or ask another planner, such as 'best'"):
        find_plan(CostModel(make_wide(512, 512), cluster), planner=planner)
    assert find_plan(CostModel(make_wide(512, 512), cluster)).plan.stages


def test_rows_end_with_the_time() -> None:
    """A search without time prices one division, not all of them."""
    cost = make_cost(make_chain(6, seed=1), 1e7, 2e7, bandwidth=1e9)
    counts = []
    for most_s, is_cut in ((0.0, True), (60.0, False)):
        evaluator = Evaluator(cost, PlanOptions("energy", most_s=most_s))
        assert plan_equal_rows(evaluator).draft
        assert evaluator.budget.was_cut == is_cut
        counts.append(evaluator.budget.evaluations)
    assert counts[0] == 1 < counts[1]
