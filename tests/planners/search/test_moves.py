"""Moves of local search: each does what it says, tiles the layers, and keeps to pins and axes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from partita.compile import check_plan
from partita.planners import Draft, DraftStage, Evaluator, PlanOptions
from partita.planners.search.device_moves import device_moves, join_device
from partita.planners.search.moves import Moves, prune, shift
from tests.planners.fakes import conv, make_cost, make_gated, make_graph

_CREW = ("d0", "d1", "d2")
_ROWS = DraftStage(0, 4, "rows", _CREW, (0, 2, 5, 8))


def _evaluator(**options: object) -> Evaluator:
    parts = [part for n in range(4) for part in conv(f"c{n}", f"t{n}", f"t{n + 1}", (4, 4, 3, 3))]
    graph = make_graph(parts, {"t0": (1, 4, 8, 8)}, ["t4"])
    return Evaluator(make_cost(graph, 1e6, 2e6, 4e6), PlanOptions(**options))  # type: ignore[arg-type]


def _moves(evaluator: Evaluator, axes: tuple[str, ...] | None = None) -> Moves:
    return Moves(evaluator.outline, _CREW, (1.0, 2.0, 4.0), axes)


def _structural(draft: Draft, axes: tuple[str, ...] | None = None, **options: object) -> set[Draft]:
    return set(_moves(_evaluator(**options), axes).structural(draft))


def _whole(start: int, stop: int, device: str) -> DraftStage:
    return DraftStage(start, stop, "none", (device,))


def test_rows_go_from_one_device_to_another() -> None:
    """As many as asked for, at most what the giver has; a giver without rows gives none."""
    assert shift(_ROWS, "d1", "d0", 1) == _ROWS.with_widths([3, 2, 3])
    assert shift(_ROWS, "d0", "d2", 9) == _ROWS.with_widths([0, 3, 5])
    assert shift(_ROWS.with_widths([0, 5, 3]), "d0", "d1", 1) is None
    assert shift(_ROWS, "d9", "d0", 1) is None
    assert shift(_whole(0, 4, "d0"), "d0", "d1", 1) is None


def test_numeric_moves_keep_all_rows() -> None:
    """Every shift changes the draft, ends at the same height, and leaves no part below nothing."""
    second = DraftStage(3, 4, "output_channels", _CREW, (0, 1, 2, 4))
    draft = (DraftStage(0, 3, "rows", _CREW, (0, 2, 5, 8)), second)
    moved = [move(draft) for move in _moves(_evaluator()).numeric(draft, 0.25)]
    changed = {other for other in moved if other is not None}
    assert len(changed) > 12
    for other in changed:
        assert other != draft
        assert [s.cuts[-1] for s in other] == [8, 4]
        assert all(a <= b for s in other for a, b in pairwise(s.cuts))
    alone = (draft[0].with_widths([4, 1, 3]), second)
    together = (draft[0].with_widths([4, 1, 3]), second.with_widths([2, 0, 2]))
    assert {alone, together} <= changed


def test_a_device_gives_to_all_others_in_proportion() -> None:
    """Four rows of one device go to both others, more to the one that has more."""
    draft = (DraftStage(0, 4, "rows", _CREW, (0, 1, 4, 8)),)
    moved = {move(draft) for move in _moves(_evaluator()).numeric(draft, 4)}
    assert (draft[0].with_widths([2, 6, 0]),) in moved


def test_borders_of_tiles_move_alone() -> None:
    """Bands and columns move by a row, and never onto their neighbours."""
    tiles = DraftStage(0, 4, "tiles", ("d0", "d1", "d2", "d0"), (0, 1, 8), (0, 4, 8))
    moved = {move((tiles,)) for move in _moves(_evaluator()).numeric((tiles,), 1)} - {None}
    borders = {(other[0].cuts, other[0].columns) for other in moved if other}
    assert borders == {
        ((0, 2, 8), (0, 4, 8)),
        ((0, 1, 8), (0, 3, 8)),
        ((0, 1, 8), (0, 5, 8)),
    }


def test_neighbours_are_merged_and_stages_are_cut() -> None:
    """Two divided stages become one with the second's shares; one becomes two with its own."""
    first, second = (
        DraftStage(0, 2, "rows", _CREW, (0, 2, 5, 8)),
        DraftStage(2, 4, "rows", _CREW, (0, 1, 2, 8)),
    )
    assert (DraftStage(0, 4, "rows", _CREW, second.cuts),) in _structural((first, second))
    parts = (
        DraftStage(0, 2, "rows", _CREW, _ROWS.cuts),
        DraftStage(2, 4, "rows", _CREW, _ROWS.cuts),
    )
    assert parts in _structural((_ROWS,))
    assert (_whole(0, 4, "d1"),) in _structural((_whole(0, 1, "d1"), _whole(1, 4, "d1")))


def test_whole_stages_are_cut_moved_and_divided() -> None:
    """A stage on one device goes elsewhere, in part or whole, or begins with rows by speed."""
    moved = _structural((_whole(0, 4, "d0"),))
    assert (_whole(0, 4, "d2"),) in moved
    assert (_whole(0, 1, "d0"), _whole(1, 4, "d1")) in moved
    assert (DraftStage(0, 4, "rows", _CREW, (0, 1, 3, 8)),) in moved
    front = (DraftStage(0, 2, "rows", ("d2", "d0"), (0, 6, 8)), _whole(2, 4, "d0"))
    assert front in moved


def test_borders_between_stages_move() -> None:
    """The layer at a border goes to the other side."""
    moved = _structural((DraftStage(0, 2, "rows", _CREW, _ROWS.cuts), _whole(2, 4, "d0")))
    for place in (1, 3):
        rows = DraftStage(0, place, "rows", _CREW, _ROWS.cuts)
        assert (rows, _whole(place, 4, "d0")) in moved


def test_a_device_leaves_and_its_rows_stay() -> None:
    """What one device had goes to the rest; a device without a part is pruned."""
    moved = _structural((_ROWS,))
    without = {other[0].devices: other[0] for other in moved if len(other) == 1 and other[0].cuts}
    assert without["d0", "d2"].cuts[-1] == 8
    empty = _ROWS.with_widths([2, 0, 6])
    assert prune((empty, _whole(4, 5, "d1"))) == (
        DraftStage(0, 4, "rows", ("d0", "d2"), (0, 2, 8)),
        _whole(4, 5, "d1"),
    )
    assert prune((_ROWS,)) == (_ROWS,)


def test_only_axes_asked_for_appear() -> None:
    """Among rows alone no move divides channels or makes tiles."""
    draft = (DraftStage(0, 3, "rows", _CREW, (0, 2, 5, 8)), _whole(3, 4, "d0"))
    free = {stage.axis for other in _structural(draft) for stage in other}
    assert {"rows", "output_channels", "none"} <= free
    rows = {stage.axis for other in _structural(draft, ("rows",)) for stage in other}
    assert rows == {"rows", "none"}
    whole = (_whole(0, 4, "d0"),)
    channels = {s.axis for other in _structural(whole, ("output_channels",)) for s in other}
    assert channels == {"output_channels", "none"}


def test_pinned_layers_stay() -> None:
    """Whatever moves, layers that touch a kept tensor run where it is, and whole."""
    draft = (_whole(0, 1, "d0"), _whole(1, 3, "d1"), _whole(3, 4, "d0"))
    moved = _structural(draft, keep_on={"t2": "d1"})
    assert len(moved) > 5
    for other in moved:
        inside = [s for s in other if s.start < 3 and s.stop > 1]
        assert {s.devices for s in inside} == {("d1",)}


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_all_moves_are_sound_plans(stages: int) -> None:
    """Every structural move covers all layers once, and its plan breaks no rule."""
    evaluator = _evaluator()
    step = 4 // stages
    draft = tuple(DraftStage(at, at + step, "rows", _CREW, _ROWS.cuts) for at in range(0, 4, step))
    moved = set(_moves(evaluator).structural(draft))
    for other in moved:
        assert (other[0].start, other[-1].stop) == (0, 4)
        assert all(a.stop == b.start for a, b in pairwise(other))
        check_plan(evaluator.graph, evaluator.problem.plan(other), evaluator.cluster)


def test_sums_may_be_merged_on_one_device_or_all() -> None:
    """A sum over rows keeps its axis with other mergers, or runs on one device."""
    evaluator = Evaluator(make_cost(make_gated(), 1e6, 1e6, 1e6), PlanOptions())
    total = len(evaluator.outline)
    draft = (
        DraftStage(0, 1, "rows", _CREW, (0, 5, 10, 16)),
        DraftStage(1, 2, "reduce", ("d0",)),
        _whole(2, total, "d0"),
    )
    seconds = {other[1] for other in _moves(evaluator).structural(draft) if len(other) == 3}
    assert DraftStage(1, 2, "reduce", _CREW) in seconds
    assert DraftStage(1, 2, "reduce", ("d1",)) in seconds
    assert _whole(1, 2, "d2") in seconds


def test_devices_are_swapped_with_and_without_their_rows() -> None:
    """Either only the names change places, or the rows go along."""
    draft = (DraftStage(0, 4, "rows", ("d0", "d1"), (0, 2, 8)),)
    moved = set(device_moves(draft, ("d0", "d1")))
    assert moved == {
        (DraftStage(0, 4, "rows", ("d1", "d0"), (0, 2, 8)),),
        (DraftStage(0, 4, "rows", ("d1", "d0"), (0, 6, 8)),),
    }


def test_a_free_device_replaces_another_or_joins() -> None:
    """In all divided stages; whole stages stay. Who joins gets half of a mean share."""
    divided = DraftStage(0, 2, "rows", ("d0", "d1"), (0, 4, 8))
    draft = (divided, _whole(2, 4, "d0"))
    moved = set(device_moves(draft, _CREW))
    replaced = DraftStage(0, 2, "rows", ("d2", "d1"), (0, 4, 8))
    assert (replaced, _whole(2, 4, "d0")) in moved
    joined = DraftStage(0, 2, "rows", _CREW, (0, 3, 6, 8))
    assert join_device(draft, "d2") == (joined, _whole(2, 4, "d0"))
    assert join_device(draft, "d2") in moved
    assert join_device(draft, "d1") == draft


def test_replicas_keep_their_shares_where_one_is_dropped() -> None:
    """The others' shares are as they were; none is left of a device that is not there."""
    draft = (DraftStage(0, 4, "replica", _CREW, shares=(1, 2, 4)),)
    stages = [stage for changed in _structural(draft) for stage in changed if stage.shares]
    assert {len(stage.devices) for stage in stages} == {2}
    for stage in stages:
        given = dict(zip(_CREW, (1, 2, 4), strict=True))
        assert stage.shares == tuple(given[device] for device in stage.devices)
