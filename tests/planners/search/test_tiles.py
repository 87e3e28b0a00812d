"""Tiles where rows would be recomputed too often."""

from __future__ import annotations

from dataclasses import replace

from partita.compile import check_plan
from partita.planners import PlanOptions, find_plan
from tests.planners.fakes import conv, make_cost, make_graph


def test_tiles_win_where_halos_are_tall() -> None:
    """Four parts of a square map have less halo as tiles: the plan has some, and is faster."""
    parts: list[object] = []
    source = "x"
    for number in range(4):
        parts += conv(f"c{number}", source, f"t{number}", (4, 4, 3, 3))
        source = f"t{number}"
    graph = make_graph(parts, {"x": (1, 4, 24, 24)}, [source])
    cost = make_cost(graph, *[1e7] * 4, bandwidth=1e8, latency=1e-3, overhead_s=0.0)
    options = PlanOptions(max_evaluations=2000)
    tiled = find_plan(cost, options=replace(options, axes=("tiles",)))
    check_plan(graph, tiled.plan, cost.cluster)
    assert "tiles" in {stage.axis for stage in tiled.plan.stages}
    assert tiled.latency_s < find_plan(cost, options=replace(options, axes=("rows",))).latency_s
