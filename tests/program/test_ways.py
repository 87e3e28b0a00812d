"""Pieces that depend on replicas: whether they cover what is read, whichever way is taken."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.program.ways import MAX_WAYS, TooManyWays, When, find_gap, holds
from partita.regions import Region, subtract_all

ROUTES = (2, 3, 2, 1)


@st.composite
def pieces(draw: Any) -> list[tuple[When, Region]]:
    """Pieces of six places that are there under up to two choices each."""
    found = []
    for _ in range(draw(st.integers(1, 8))):
        groups = draw(st.lists(st.integers(0, 3), max_size=2, unique=True))
        when = tuple((group, draw(st.integers(0, ROUTES[group] - 1))) for group in sorted(groups))
        start = draw(st.integers(0, 5))
        found.append((when, Region(((start, draw(st.integers(start + 1, 6))),))))
    return found


@given(pieces(), st.dictionaries(st.integers(0, 3), st.just(0), max_size=2))
def test_a_gap_is_found_where_some_way_leaves_one(
    some: list[tuple[When, Region]], fixed: dict[int, int]
) -> None:
    """As by trying all ways; the way that is named leaves what is named."""

    def gaps(chosen: dict[int, int]) -> list[Region]:
        return subtract_all(wanted, [box for when, box in some if holds(when, chosen)])

    wanted = Region(((0, 4),))
    ways = (dict(enumerate(way)) for way in product(*map(range, ROUTES)))
    some_way_leaves = any(gaps(way) for way in ways if fixed.items() <= way.items())
    found = find_gap(wanted, some, fixed, ROUTES)
    assert (found is not None) == some_way_leaves
    if found is not None:
        gap, chosen = found
        assert fixed.items() <= chosen.items()
        assert gap in gaps(dict.fromkeys(range(len(ROUTES)), 0) | chosen)


def test_stages_apart_are_looked_at_apart() -> None:
    """Twelve stages of thirty replicas, each of which covers its part: 30^12 ways in all."""
    stages, replicas = 12, 30
    some = [
        (((group, replica),), Region(((group, group + 1),)))
        for group in range(stages)
        for replica in range(replicas)
    ]
    wanted, routes = Region(((0, stages),)), (replicas,) * stages
    assert find_gap(wanted, some, {}, routes) is None
    found = find_gap(wanted, some[:-1], {}, routes)
    assert found is not None
    assert (found[0], found[1][stages - 1]) == (Region(((stages - 1, stages),)), replicas - 1)


def test_ways_beyond_all_measure_are_not_tried() -> None:
    """Of stages that something depends on together, and of what stages differ in."""
    wide = MAX_WAYS // 2
    both = [(((0, 0), (1, 0)), Region(((0, 1),)))]
    with pytest.raises(TooManyWays):
        find_gap(Region(((0, 1),)), both, {}, (wide, wide))
    other = [
        (((group, replica),), Region(((replica, replica + 1),)))
        for group in range(2)
        for replica in range(wide)
    ]
    with pytest.raises(TooManyWays):
        find_gap(Region(((0, 1),)), other, {}, (wide, wide))
