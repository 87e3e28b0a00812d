"""Drafts become stages: who owns which box, what is computed apart, and what is refused."""

from __future__ import annotations

import pytest

from partita.planners import Draft, DraftStage
from partita.planners.drafts.draft import (
    DraftLowering,
    is_allowed,
    scale_cut,
    share_cuts,
    whole_stages,
)
from partita.planners.drafts.layer_order import LayerOrder
from tests.planners.fakes import conv, make_dense, make_gated, make_graph


def _strided() -> DraftLowering:
    """Return a convolution over eight rows whose output one of stride two halves."""
    parts = [
        *conv("c0", "x", "a", (4, 3, 3, 3)),
        *conv("c1", "a", "b", (6, 4, 3, 3), strides=[2, 2]),
        *conv("c2", "a", "d", (4, 4, 1, 1)),
    ]
    return DraftLowering(LayerOrder(make_graph(parts, {"x": (1, 3, 8, 8)}, ["b", "d"])))


def test_cuts_are_those_of_the_highest_output() -> None:
    """Five of eight rows are three of the four rows of the lower output: the nearest cut."""
    (stage,) = _strided().stages((DraftStage(0, 3, "rows", ("d0", "d1"), (0, 5, 8)),))
    first, second = (shard.boxes for shard in stage.shards)
    assert (first["d"].bounds[2], second["d"].bounds[2]) == ((0, 5), (5, 8))
    assert (first["b"].bounds[2], second["b"].bounds[2]) == ((0, 3), (3, 4))
    assert first["b"].bounds[1] == (0, 6)


def test_tiles_are_dealt_band_by_band() -> None:
    """The second device of the first band has its right half, the third the left half below."""
    tiles = DraftStage(0, 1, "tiles", ("d0", "d1", "d2", "d3"), (0, 2, 8), (0, 5, 8))
    (stage,) = _strided().stages((tiles,))
    boxes = [shard.boxes["a"].bounds[2:] for shard in stage.shards]
    assert boxes == [((0, 2), (0, 5)), ((0, 2), (5, 8)), ((2, 8), (0, 5)), ((2, 8), (5, 8))]


def test_channels_are_cut_and_all_rows_kept() -> None:
    """A part of the filters is a box of all positions."""
    (stage,) = _strided().stages((DraftStage(0, 1, "output_channels", ("d1", "d0"), (0, 1, 4)),))
    assert [shard.boxes["a"].bounds for shard in stage.shards] == [
        ((0, 1), (0, 1), (0, 8), (0, 8)),
        ((0, 1), (1, 4), (0, 8), (0, 8)),
    ]


def test_edges_follow_the_part_that_needs_nothing() -> None:
    """Between neighbours the inner rows come first; at the image's border there is no edge."""
    lowering = _strided()
    stage = DraftStage(0, 1, "rows", ("d0", "d1", "d2"), (0, 2, 6, 8), edge=1)
    spans = [[part["a"].bounds[2] for part in lowering.parts(stage, n)] for n in range(3)]
    assert spans == [[(0, 1), (1, 2)], [(3, 5), (2, 3), (5, 6)], [(7, 8), (6, 7)]]


def test_a_part_that_is_all_edge_stays_in_one() -> None:
    """Two rows with an edge on both sides have nothing to compute before the halos come."""
    stage = DraftStage(0, 1, "rows", ("d0", "d1", "d2"), (0, 3, 5, 8), edge=1)
    assert [part["a"].bounds[2] for part in _strided().parts(stage, 1)] == [(3, 5)]


def test_sums_are_over_the_rows_that_each_device_holds() -> None:
    """A mean after divided rows is summed where they are, and merged on the devices named."""
    order = LayerOrder(make_gated())
    assert order.kinds[:2] == ("rows", "reduce")
    draft: Draft = (
        DraftStage(0, 1, "rows", ("d0", "d1"), (0, 6, 16)),
        DraftStage(1, 2, "reduce", ("d1",)),
        *whole_stages(order, 2, len(order), "d0"),
    )
    stage = DraftLowering(order).stages(draft)[1]
    summed = [(shard.device, shard.boxes["a"].bounds[2]) for shard in stage.shards]
    assert summed == [("d0", (0, 6)), ("d1", (6, 16))]
    assert [shard.device for shard in stage.merge] == ["d1"]


def test_a_sum_of_what_was_not_divided_runs_everywhere() -> None:
    """With the rows on one device there is nothing to sum: each device named computes it whole."""
    order = LayerOrder(make_gated())
    draft: Draft = (DraftStage(0, 1, "none", ("d0",)), DraftStage(1, 2, "reduce", ("d0", "d1")))
    stage = DraftLowering(order).stages(draft)[1]
    assert (stage.axis, len(stage.shards), stage.merge) == ("everywhere", 2, ())


def test_the_same_stage_after_another_division_is_another() -> None:
    """What a sum adds follows the stage that made the rows, also when stages are remembered."""
    order = LayerOrder(make_gated())
    lowering = DraftLowering(order)
    sums = DraftStage(1, 2, "reduce", ("d0",))
    for cut in (4, 12):
        stages = lowering.stages((DraftStage(0, 1, "rows", ("d0", "d1"), (0, cut, 16)), sums))
        assert stages[1].shards[0].boxes["a"].bounds[2] == (0, cut)


def test_a_tensor_without_the_axis_is_refused() -> None:
    """A dense layer's output has no rows: a programming error names the tensor."""
    order = LayerOrder(make_dense(1))
    last = len(order) - 1
    stage = DraftStage(last, last + 1, "rows", ("d0", "d1"), (0, 1, 2))
    with pytest.raises(ValueError, match="'f1' has no rows"):
        DraftLowering(order).boxes(stage, 0)


def test_pinned_layers_interrupt_a_range() -> None:
    """A range on one device is three stages where a layer inside is pinned to another."""
    parts = [part for n in range(4) for part in conv(f"c{n}", f"t{n}", f"t{n + 1}", (3, 3, 3, 3))]
    graph = make_graph(parts, {"t0": (1, 3, 8, 8)}, ["t4"])
    order = LayerOrder(graph, {"t2": "d1"}, "d0")
    stages = [(s.start, s.stop, s.devices[0]) for s in whole_stages(order, 0, 4, "d0")]
    assert stages == [(0, 1, "d0"), (1, 3, "d1"), (3, 4, "d0")]


def test_axes_that_are_not_asked_for_are_not_allowed() -> None:
    """Only division counts: a whole stage is allowed whatever the axes."""
    rows = DraftStage(0, 1, "rows", ("a", "b"), (0, 4, 8))
    whole = DraftStage(1, 2, "none", ("a",))
    assert is_allowed((rows, whole), None)
    assert is_allowed((rows, whole), ("rows",))
    assert is_allowed((whole,), ())
    assert not is_allowed((rows, whole), ("output_channels",))
    tiles = DraftStage(0, 1, "tiles", ("a", "b"), (0, 8), (0, 4, 8))
    assert not is_allowed((tiles,), ("rows",))


@pytest.mark.parametrize(
    ("shares", "height", "cuts"),
    [
        ((1, 1, 1), 8, (0, 3, 5, 8)),
        ((0, 1), 8, (0, 0, 8)),
        ((1, 0), 8, (0, 8, 8)),
        ((5, 1, 1, 1), 2, (0, 1, 2, 2, 2)),
    ],
)
def test_shares_become_whole_rows(
    shares: tuple[int, ...], height: int, cuts: tuple[int, ...]
) -> None:
    """Cuts are the nearest rows; a share of nothing has none; the last cut is the height."""
    assert share_cuts(shares, height) == cuts


def test_cuts_scale_to_the_nearest_row() -> None:
    """Halves are rounded up, the ends stay the ends."""
    assert [scale_cut(cut, 8, 4) for cut in range(9)] == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [scale_cut(cut, 4, 8) for cut in range(5)] == [0, 2, 4, 6, 8]
