"""Tiles where rows would be recomputed too often."""

from __future__ import annotations

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
