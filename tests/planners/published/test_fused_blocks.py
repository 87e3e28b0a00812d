"""Fused blocks are priced as a straight line would, and the best ends are the best of all."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from onnx import helper

from partita.planners import Evaluator, PlanOptions
from partita.planners.published.fused_blocks import MOST_PLACES, FusedBlocks
from partita.planners.published.linear_view import LinearView, fit_view
from tests.planners.fakes import conv, make_chain, make_cost, make_gated, make_graph

SHARES = (1.0, 3.0)


def _view(*rates: float, layers: int = 5, bandwidth: float = 3e6) -> LinearView:
    cost = make_cost(make_chain(layers, seed=2), *rates, bandwidth=bandwidth)
    return fit_view(Evaluator(cost, PlanOptions()), cost.cluster.names)


def test_block_by_hand() -> None:
    """Two 3x3 convolutions on 8 rows in halves: rows with halo, and what must be sent."""
    parts = [*conv("a", "x", "t", (4, 4, 3, 3)), *conv("b", "t", "y", (4, 4, 3, 3))]
    cost = make_cost(make_graph(parts, {"x": (1, 4, 8, 8)}, ["y"]), 1e6, 1e6, bandwidth=1e6)
    view = fit_view(Evaluator(cost, PlanOptions()), ("d0", "d1"))
    blocks = FusedBlocks(view, (1.0, 1.0))
    row_macs, row_bytes = 4 * 4 * 9 * 8, 4 * 8 * 4
    rate = view.capability["d1"]
    # d1 makes 4 rows of b out of 5 of a, for which the requester d0 sends 6.
    assert blocks.block_s(0, 2) == pytest.approx(9 * row_macs / rate + 6 * row_bytes / 1e6)
    # Alone: 4 rows of a from 5; then 4 rows of b, one row of a comes from the neighbour.
    assert blocks.block_s(0, 1) == pytest.approx(4 * row_macs / rate + 5 * row_bytes / 1e6)
    assert blocks.block_s(1, 2) == pytest.approx(4 * row_macs / rate + 1 * row_bytes / 1e6)
    # The end: d1 sends its half to d0, where the answer stays.
    assert blocks.rest_s(2, "d0") == pytest.approx(4 * row_bytes / 1e6)


@pytest.mark.parametrize("bandwidth", [3e5, 3e6, 3e7])
def test_best_ends_are_the_best_of_all(bandwidth: float) -> None:
    """Dynamic programming finds the least sum over every set of ends."""
    blocks = FusedBlocks(_view(1e7, 3e7, bandwidth=bandwidth), SHARES)
    last = blocks.places[-1]
    assert blocks.places == tuple(range(last + 1))
    sums = {}
    for count in range(1, last + 1):
        for ends in combinations(range(1, last + 1), count):
            steps = sum(blocks.block_s(*pair) for pair in pairwise((0, *ends)))
            sums[ends] = steps + blocks.rest_s(ends[-1], "d1")
    ends, seconds = blocks.best_ends("d1")
    assert seconds == pytest.approx(min(sums.values()))
    assert seconds == pytest.approx(sums[ends])
    all_s = min(value for chosen, value in sums.items() if chosen[-1] == last)
    assert blocks.best_ends("d1", until=last)[1] == pytest.approx(all_s)


def test_slow_links_fuse_more() -> None:
    """The slower the links, the fewer the blocks."""
    counts = [
        len(FusedBlocks(_view(1e6, 1e6, bandwidth=b), (1, 1)).best_ends("d1", until=5)[0])
        for b in (1e8, 1e4)
    ]
    assert counts[0] > counts[1] >= 1


def test_no_block_spans_a_layer_without_rows() -> None:
    """Sums over space and gates are steps of their own, and the program goes past them."""
    cost = make_cost(make_gated(), 1e6, 1e6, bandwidth=1e9)
    view = fit_view(Evaluator(cost, PlanOptions()), ("d0", "d1"))
    blocks = FusedBlocks(view, (1.0, 1.0))
    kinds = view.outline.kinds
    other = next(p for p, kind in enumerate(kinds) if kind != "rows")
    assert blocks.block_s(0, other + 1) == float("inf")
    ends, seconds = blocks.best_ends("d0", until=len(kinds))
    assert seconds < float("inf")
    assert ends[-1] == len(kinds)


def test_places_are_few() -> None:
    """A long chain is ended at no more places than the program can look at."""
    view = _view(1e7, 1e7, layers=60)
    blocks = FusedBlocks(view, (1.0, 1.0))
    assert len(blocks.places) == MOST_PLACES
    assert {0, 60} <= set(blocks.places)


def test_outputs_of_divided_layers_go_straight_to_the_requester() -> None:
    """Heads that are divided answer in parts; only what later layers read is gathered at home."""
    parts = [
        *conv("a", "x", "t", (4, 4, 3, 3)),
        *conv("head", "t", "y", (8, 4, 3, 3)),
        helper.make_node("GlobalAveragePool", ["t"], ["z"], name="mean"),
    ]
    cost = make_cost(
        make_graph(parts, {"x": (1, 4, 8, 8)}, ["y", "z"]), 1e9, 1e9, 1e9, bandwidth=1e6
    )
    view = fit_view(Evaluator(cost, PlanOptions()), ("d1", "d2"))
    end = view.outline.row_runs()[-1][1]
    sent = view.crossing(end)
    assert (sent.gathered, sent.answered, sent.late) == (4 * 64 * 4, 8 * 64 * 4, 4 * 4)
    rest_s = FusedBlocks(view, (1.0, 1.0)).rest_s(end, "d1")
    assert rest_s == pytest.approx(sent.answered / 2 / 1e6)
