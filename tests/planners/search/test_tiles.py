"""Tiles where rows would be recomputed too often."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from partita.compile import check_plan
from partita.planners import DraftStage, Evaluator, PlanOptions
from partita.planners.search.moves import Moves
from tests.planners.fakes import conv, make_cost, make_graph


def test_tiles_win_where_halos_are_tall() -> None:
    """Four parts of a square map have less halo as tiles: a move makes them, and is faster."""
    parts: list[object] = []
    source = "x"
    for number in range(4):
        parts += conv(f"c{number}", source, f"t{number}", (4, 4, 3, 3))
        source = f"t{number}"
    graph = make_graph(parts, {"x": (1, 4, 24, 24)}, [source])
    cost = make_cost(graph, *[1e7] * 4, bandwidth=1e8, latency=1e-3, overhead_s=0.0)
    evaluator = Evaluator(cost, PlanOptions())
    devices = evaluator.devices
    rows = (DraftStage(0, 4, "rows", devices, (0, 6, 12, 18, 24)),)
    moves = Moves(evaluator.outline, devices, [1.0] * 4, ("tiles",))
    tiled = next(draft for draft in moves.structural(rows) if draft[0].axis == "tiles")
    assert len(tiled) == 1
    check_plan(graph, evaluator.problem.plan(tiled), cost.cluster)
    assert evaluator.latency_of(tiled) < evaluator.latency_of(rows)


def test_tiles_end_where_columns_do() -> None:
    """No move gives tiles a layer without columns, where rows and columns were joined to tokens."""
    shapes = [
        numpy_helper.from_array(np.asarray(extents, np.int64), name)
        for name, extents in (("tokens", (1, 4, 64)), ("map", (1, 4, 8, 8)))
    ]
    parts = [
        *conv("c0", "x", "a", (4, 3, 3, 3)),
        *conv("c1", "a", "b", (4, 4, 3, 3)),
        helper.make_node("Reshape", ["b", "tokens"], ["t"], name="join"),
        helper.make_node("Reshape", ["t", "map"], ["m"], name="part"),
        *conv("c2", "m", "y", (4, 4, 1, 1)),
        *shapes,
    ]
    graph = make_graph(parts, {"x": (1, 3, 8, 8)}, ["y"])
    cost = make_cost(graph, *[1e7] * 4, bandwidth=1e8)
    evaluator = Evaluator(cost, PlanOptions())
    devices, outline = evaluator.devices, evaluator.outline
    joined = outline.order.index("join")
    assert outline.kinds == ("rows",) * 5
    assert (outline.columns(0, joined), outline.columns(0, joined + 1)) == (8, 0)
    halves = ((0, 4, 8), (0, 4, 8))
    draft = (
        DraftStage(0, joined, "tiles", devices, *halves),
        DraftStage(joined, 4, "rows", devices, (0, 2, 4, 6, 8)),
        DraftStage(4, 5, "tiles", devices, *halves),
    )
    moves = Moves(outline, devices, [1.0] * 4)
    tried = list(moves.structural(draft))
    assert len(tried) > 20
    for other in tried:
        check_plan(graph, evaluator.problem.plan(other), cost.cluster)
