"""Half-open boxes in a tensor's coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

Interval = tuple[int, int]


class Region(msgspec.Struct, frozen=True, array_like=True):
    """A half-open box: one ``(start, stop)`` per axis, counted from 0.

    >>> Region(((0, 1), (2, 6))).shape
    (1, 4)
    """

    bounds: tuple[Interval, ...]

    @classmethod
    def full(cls, shape: Sequence[int]) -> Region:
        """The box that covers a whole tensor of ``shape``."""
        return cls(tuple((0, int(extent)) for extent in shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent along each axis, in elements."""
        return tuple(stop - start for start, stop in self.bounds)

    @property
    def size(self) -> int:
        """Number of elements; 1 for a scalar."""
        count = 1
        for start, stop in self.bounds:
            if stop <= start:
                return 0
            count *= stop - start
        return count

    @property
    def is_empty(self) -> bool:
        """Whether the box holds no element."""
        for start, stop in self.bounds:  # noqa: SIM110 (planners call this very often)
            if stop <= start:
                return True
        return False

    def with_axis(self, axis: int, interval: Interval) -> Region:
        """The same box with another interval along ``axis``."""
        return Region((*self.bounds[:axis], interval, *self.bounds[axis + 1 :]))

    def contains(self, other: Region) -> bool:
        """Whether every element of ``other`` lies in this box."""
        return other.is_empty or all(
            a <= c and d <= b for (a, b), (c, d) in zip(self.bounds, other.bounds, strict=True)
        )

    def intersect(self, other: Region) -> Region:
        """The common box; empty boxes may have stop below start set equal to start."""
        bounds = []
        for mine, theirs in zip(self.bounds, other.bounds, strict=True):
            if mine == theirs and mine[0] <= mine[1]:
                bounds.append(mine)
                continue
            start = mine[0] if mine[0] > theirs[0] else theirs[0]
            stop = mine[1] if mine[1] < theirs[1] else theirs[1]
            bounds.append((start, stop if stop > start else start))
        return Region(tuple(bounds))

    def overlaps(self, other: Region) -> bool:
        """Whether the two boxes have an element in common."""
        for (a, b), (c, d) in zip(self.bounds, other.bounds, strict=True):
            if a >= d or c >= b or a >= b or c >= d:
                return False
        return True

    def hull(self, other: Region) -> Region:
        """The smallest box that holds both; an empty box adds nothing."""
        if self.is_empty:
            return other
        if other.is_empty:
            return self
        pairs = zip(self.bounds, other.bounds, strict=True)
        return Region(tuple((min(a, c), max(b, d)) for (a, b), (c, d) in pairs))

    def subtract(self, other: Region) -> list[Region]:
        """Disjoint boxes that cover this box without ``other``."""
        if not self.overlaps(other):
            return [] if self.is_empty else [self]
        common = self.intersect(other)
        left, rest = [], self
        for axis, ((a, b), (c, d)) in enumerate(zip(self.bounds, common.bounds, strict=True)):
            if a == c and b == d:
                continue
            if a < c:
                left.append(rest.with_axis(axis, (a, c)))
            if d < b:
                left.append(rest.with_axis(axis, (d, b)))
            rest = rest.with_axis(axis, (c, d))
        return left

    def relative_to(self, origin: Region) -> Region:
        """This box in the coordinates of ``origin``'s own array."""
        pairs = zip(self.bounds, origin.bounds, strict=True)
        return Region(tuple((a - c, b - c) for (a, b), (c, _) in pairs))

    def slices(self) -> tuple[slice, ...]:
        """Index slices for a NumPy array."""
        return tuple(slice(start, stop) for start, stop in self.bounds)

    def __str__(self) -> str:
        return "[" + ", ".join(f"{start}:{stop}" for start, stop in self.bounds) + "]"


def hull_of(boxes: Iterable[Region]) -> Region | None:
    """The smallest box that holds all ``boxes``, or None when there are none."""
    result: Region | None = None
    for box in boxes:
        result = box if result is None else result.hull(box)
    return result


def subtract_all(box: Region, covers: Iterable[Region]) -> list[Region]:
    """Disjoint boxes of ``box`` that no box of ``covers`` holds."""
    left = [] if box.is_empty else [box]
    for cover in covers:
        left = [piece for part in left for piece in part.subtract(cover)]
    return left


def find_tiling_fault(shape: Sequence[int], boxes: Sequence[Region]) -> str | None:
    """The fault of ``boxes`` that do not cover a tensor exactly once; None where they do."""
    whole = Region.full(shape)
    for box in boxes:
        if len(box.bounds) != len(whole.bounds):
            return f"{box} has {len(box.bounds)} axes, the tensor has {len(whole.bounds)}"
    kept = [box for box in boxes if not box.is_empty]
    for box in kept:
        if not whole.contains(box):
            return f"{box} leaves the tensor {whole}"
    for index, box in enumerate(kept):
        for other in kept[:index]:
            if not box.intersect(other).is_empty:
                return f"{other} and {box} overlap"
    gaps = subtract_all(whole, kept)
    return f"{gaps[0]} is owned by nobody" if gaps else None
