"""Edges computed after the rest: they tile what the device has, and pay where halos travel."""

from __future__ import annotations

import pytest

from partita.planners import DraftStage, Evaluator, PlanOptions, find_plan
from partita.planners.search.overlapped import edge_moves, overlapped_draft
from partita.regions import Region, find_tiling_fault
from tests.planners.fakes import conv, make_cost, make_graph


def _evaluator(latency: float = 1e-3, tile_rows: int = 1) -> Evaluator:
    parts = [part for n in range(4) for part in conv(f"c{n}", f"t{n}", f"t{n + 1}", (4, 4, 3, 3))]
    graph = make_graph(parts, {"t0": (1, 4, 24, 24)}, ["t4"])
    cost = make_cost(graph, 1e7, 1e7, latency=latency, overhead_s=1e-6, tile_rows=tile_rows)
    return Evaluator(cost, PlanOptions())


@pytest.mark.parametrize("edge", [0, 1, 2, 5, 24])
@pytest.mark.parametrize("columns", [(), (0, 7, 24)])
def test_parts_cover_the_output_once(edge: int, columns: tuple[int, ...]) -> None:
    """Parts of all devices tile the stage's output; the inner part comes first."""
    evaluator = _evaluator()
    axis, devices = ("tiles", ("d0", "d1", "d1", "d0")) if columns else ("rows", ("d0", "d1"))
    stage = DraftStage(1, 3, axis, devices, (0, 10, 24), columns, edge)  # type: ignore[arg-type]
    lowering = evaluator.problem.lowering
    parts = [lowering.parts(stage, number) for number in range(len(devices))]
    boxes = [box for one in parts for part in one for box in part.values()]
    assert find_tiling_fault((1, 4, 24, 24), boxes) is None
    assert all(len(one) == 1 for one in parts) == (edge in (0, 24))
    for number, one in enumerate(parts):
        if len(one) > 1:
            own = lowering.boxes(stage, number)["t3"]
            assert one[0]["t3"] == _inner(own, edge, 3 if columns else 2)


def _inner(box: Region, edge: int, last: int) -> Region:
    for axis in range(2, last + 1):
        start, stop = box.bounds[axis]
        box = box.with_axis(axis, (start + edge * (start > 0), stop - edge * (stop < 24)))
    return box


def test_edges_hide_the_delay_of_links() -> None:
    """With a stage per convolution, interiors are computed while halos travel."""
    evaluator = _evaluator()
    plain = overlapped_draft(evaluator)
    assert [stage.axis for stage in plain] == ["rows"] * 4
    best = min(edge_moves(plain), key=evaluator.latency_of)
    assert evaluator.latency_of(plain) - evaluator.latency_of(best) > 2 * 1e-3


def test_edges_of_columns_hide_it_where_few_rows_cost_as_much_as_many() -> None:
    """An edge of a column has all rows: eight at a time, as the device computes them."""
    evaluator = _evaluator(tile_rows=8)
    rows, columns = (overlapped_draft(evaluator, axis) for axis in ("rows", "tiles"))
    assert {(stage.axis, stage.cuts) for stage in columns} == {("tiles", (0, 24))}
    best, other = (min(map(evaluator.latency_of, edge_moves(draft))) for draft in (columns, rows))
    assert other - best > 2 * 1e-3
    assert find_plan(evaluator.cost).latency_s <= best
