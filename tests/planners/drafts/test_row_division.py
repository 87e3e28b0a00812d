"""Divisions of a network's first part: where stages end, and what becomes of what has no rows."""

from __future__ import annotations

from math import inf

from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.drafts.least_chains import least_chains
from partita.planners.drafts.row_division import (
    PrefixDivision,
    divide,
    shrink_positions,
    thin,
)
from tests.planners.fakes import conv, make_chain, make_gated, make_graph

_CREW, _SHARES = ("d0", "d1"), (1.0, 3.0)


def test_stages_end_at_the_boundaries_and_the_rest_is_whole() -> None:
    """Two divided stages in shares of one to three, then one device."""
    order = LayerOrder(make_chain(4))
    draft = divide(order, PrefixDivision(_CREW, _SHARES, (1, 3), "d1"))
    assert [(s.start, s.stop, s.axis) for s in draft] == [
        (0, 1, "rows"),
        (1, 3, "rows"),
        (3, 4, "none"),
    ]
    height = order.rows(0, 1)
    assert draft[0].widths == [height // 4, height - height // 4]
    assert draft[-1].devices == ("d1",)


def test_no_boundary_means_no_division() -> None:
    """All of it runs on the device for the rest."""
    draft = divide(LayerOrder(make_chain(3)), PrefixDivision(_CREW, _SHARES, (), "d1"))
    assert [(s.start, s.stop, s.axis, s.devices) for s in draft] == [(0, 3, "none", ("d1",))]


def test_a_gate_does_not_end_the_division() -> None:
    """The mean is summed by all, the small layers run on all, and rows go on after them."""
    order = LayerOrder(make_gated())
    draft = divide(order, PrefixDivision(_CREW, _SHARES, (len(order),), "d0"))
    assert [s.axis for s in draft][:3] == ["rows", "reduce", "everywhere"]
    assert draft[-1].axis == "rows"
    assert all(s.devices == _CREW for s in draft)


def test_a_sum_that_ends_the_division_is_merged_where_the_rest_runs() -> None:
    """What nobody divides any more is needed on one device only."""
    order = LayerOrder(make_gated())
    draft = divide(order, PrefixDivision(_CREW, _SHARES, (2,), "d1"))
    assert (draft[1].axis, draft[1].devices) == ("reduce", ("d1",))
    assert {s.devices for s in draft[2:]} == {("d1",)}


def test_pinned_layers_are_whole_inside_a_division() -> None:
    """They interrupt the rows and run where they are pinned."""
    order = LayerOrder(make_chain(4), {"t1": "d0"}, "d0")
    draft = divide(order, PrefixDivision(_CREW, _SHARES, (4,), "d1"))
    assert [(s.start, s.stop, s.axis) for s in draft] == [
        (0, 1, "rows"),
        (1, 3, "none"),
        (3, 4, "rows"),
    ]
    assert draft[1].devices == ("d0",)


def test_stages_may_well_end_where_less_is_passed_on() -> None:
    """After the strided layer and the narrow one, not after the wide one or at the range's end."""
    parts = [
        *conv("c0", "x", "a", (4, 4, 3, 3)),
        *conv("c1", "a", "b", (4, 4, 3, 3), strides=[2, 2]),
        *conv("c2", "b", "d", (8, 4, 3, 3)),
        *conv("c3", "d", "e", (2, 8, 1, 1)),
        *conv("c4", "e", "y", (2, 2, 1, 1)),
    ]
    order = LayerOrder(make_graph(parts, {"x": (1, 4, 8, 8)}, ["y"]))
    assert shrink_positions(order, 0, 5) == [2, 4]
    assert shrink_positions(order, 2, 4) == []


def test_thinned_places_keep_the_last() -> None:
    """Evenly spread from the end on; few places stay all."""
    assert thin([1, 2, 3], 3) == [1, 2, 3]
    assert thin(range(10), 2) == [4, 9]
    assert len(thin(range(100), 8)) == 8
    assert thin([], 3) == []


def test_chains_pass_over_what_cannot_be() -> None:
    """No range may cross place 2, and the cheapest ends are found on both sides of it."""

    def cost(start: int, stop: int) -> float:
        return inf if start < 2 < stop else {1: 1.0, 2: 5.0}[stop - start]

    chains = least_chains([0, 1, 2, 3, 4], cost)
    assert (chains[4].cost, chains[4].ends) == (4.0, (1, 2, 3, 4))
    assert 0 not in chains
    blocked = least_chains([0, 1, 2], lambda start, stop: inf if start == 1 or stop == 2 else 1.0)
    assert set(blocked) == {1}
