"""Who fetches which box from whom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from partita.compile.placement import REGIONS, SPANS, fetch_missing, nearest_first, use_held
from partita.regions import Interval, Region

_SPANS = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda ends: (min(ends), max(ends)))


def test_own_pieces_come_first_then_owners_in_order() -> None:
    """What a device holds is not fetched; the rest is, once, from who comes first."""
    used, missing = use_held(SPANS, (0, 8), [(9, 12), (2, 4), (3, 4)])
    assert (used, missing) == ([1], [(0, 2), (4, 8)])
    sent, missing = fetch_missing(SPANS, missing, [(0, 5), (1, 9)])
    assert (sent, missing) == ([(0, (0, 2)), (0, (4, 5)), (1, (5, 8))], [])


def test_fast_links_first_and_the_plan_s_order_where_equal() -> None:
    """Owners are sorted by the rate of their links; equal ones stay as they are."""
    rates = {"a": 1.0, "b": 3.0, "c": 1.0, "d": 3.0}
    assert list(nearest_first(list("abcd"), rates.__getitem__)) == ["b", "d", "a", "c"]


@given(_SPANS, st.lists(_SPANS, max_size=4), st.lists(_SPANS, max_size=4))
def test_spans_are_regions_of_one_axis(
    need: Interval, held: list[Interval], owned: list[Interval]
) -> None:
    """Numbers and boxes give the same uses, parts and gaps."""
    used, missing = use_held(SPANS, need, held)
    boxes = [Region((span,)) for span in held]
    assert use_held(REGIONS, Region((need,)), boxes) == (used, [Region((one,)) for one in missing])
    sent, gaps = fetch_missing(SPANS, missing, owned)
    parts = fetch_missing(
        REGIONS, [Region((one,)) for one in missing], [Region((span,)) for span in owned]
    )
    assert parts == ([(n, Region((one,))) for n, one in sent], [Region((one,)) for one in gaps])
