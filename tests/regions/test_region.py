"""Boxes: what they leave, hold and have in common is what sets of cells say."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.regions import Region, find_tiling_fault, hull_of, subtract_all

LAW = settings(max_examples=150)


def intervals() -> st.SearchStrategy[tuple[int, int]]:
    """Return strategies for half-open intervals, empty ones included."""
    return st.tuples(st.integers(0, 6), st.integers(0, 4)).map(lambda p: (p[0], p[0] + p[1]))


def boxes(rank: int = 2) -> st.SearchStrategy[Region]:
    """Return strategies for boxes of one rank."""
    return st.tuples(*[intervals()] * rank).map(Region)


def cells(box: Region) -> set[tuple[int, ...]]:
    """Return the cells that a box holds, one by one."""
    return set(product(*(range(start, stop) for start, stop in box.bounds)))


@LAW
@given(boxes(), boxes())
def test_subtraction_leaves_exactly_the_rest(a: Region, b: Region) -> None:
    """What a subtraction leaves is disjoint and holds each cell that only the first box has."""
    left = a.subtract(b)
    assert sum(part.size for part in left) == len(cells(a) - cells(b))
    assert set().union(*map(cells, left)) == cells(a) - cells(b)


@LAW
@given(boxes(3), st.lists(boxes(3), max_size=4))
def test_subtracting_many_leaves_exactly_the_rest(a: Region, covers: list[Region]) -> None:
    """The same holds for several boxes one after the other."""
    left = subtract_all(a, covers)
    rest = cells(a).difference(*map(cells, covers))
    assert sum(part.size for part in left) == len(rest)
    assert set().union(*map(cells, left)) == rest


@LAW
@given(boxes(), boxes())
def test_common_cells(a: Region, b: Region) -> None:
    """Intersection, overlap and containment agree with the cells."""
    common = cells(a) & cells(b)
    assert cells(a.intersect(b)) == common
    assert a.overlaps(b) == bool(common)
    assert a.contains(b) == (cells(b) <= cells(a))
    assert a.is_empty == (not cells(a))
    assert a.size == len(cells(a))


@LAW
@given(boxes(), boxes())
def test_hull_is_the_smallest_box_around_both(a: Region, b: Region) -> None:
    """A hull holds both boxes, and no side of it can be moved in."""
    hull = a.hull(b)
    both = cells(a) | cells(b)
    assert both <= cells(hull)
    if both:
        for axis in range(2):
            positions = [cell[axis] for cell in both]
            assert hull.bounds[axis] == (min(positions), max(positions) + 1)
    assert hull_of([a, b]) == hull
    assert hull_of([]) is None


@LAW
@given(boxes(), boxes())
def test_local_coordinates(a: Region, b: Region) -> None:
    """A common box in local coordinates has the same shape and indexes the same cells."""
    common = a.intersect(b)
    local = common.relative_to(a)
    assert local.shape == common.shape
    assert all(start >= 0 for start, _ in local.bounds) or common.is_empty


@LAW
@given(st.tuples(st.integers(1, 5), st.integers(1, 5)), st.lists(boxes(), max_size=4))
def test_a_tiling_covers_each_cell_once(shape: tuple[int, int], parts: list[Region]) -> None:
    """No fault is found exactly when the boxes hold every cell once and none outside."""
    held = [cell for part in parts for cell in cells(part)]
    exact = sorted(held) == sorted(cells(Region.full(shape)))
    assert (find_tiling_fault(shape, parts) is None) == exact


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([((0, 3), (0, 4))], "[3:4, 0:4] is owned by nobody"),
        ([((0, 3), (0, 4)), ((2, 4), (0, 4))], "[0:3, 0:4] and [2:4, 0:4] overlap"),
        ([((0, 5), (0, 4))], "leaves the tensor [0:4, 0:4]"),
        ([((0, 4),)], "has 1 axes, the tensor has 2"),
        ([((3, 1), (0, 4)), ((0, 4), (0, 4))], None),
    ],
)
def test_tiling_faults_say_where(parts: list[tuple[tuple[int, int], ...]], words: str) -> None:
    """A fault names the boxes; a box whose end lies before its start is empty and harmless."""
    fault = find_tiling_fault((4, 4), [Region(bounds) for bounds in parts])
    assert (words is None and fault is None) or (fault is not None and words in fault)


def test_scalars() -> None:
    """A box without axes holds one cell."""
    scalar = Region(())
    assert scalar.size == 1
    assert not scalar.is_empty
    assert scalar.contains(scalar)
    assert scalar.overlaps(scalar)
    assert scalar.subtract(scalar) == []
    assert find_tiling_fault((), [scalar]) is None


def test_an_empty_box_of_another_rank_is_a_fault() -> None:
    """It owns nothing, but cannot be compared with the tensor's extents either."""
    boxes = [Region(((0, 4), (0, 2))), Region(((2, 2),))]
    assert find_tiling_fault((4, 2), boxes) == "[2:2] has 1 axes, the tensor has 2"
