"""Extents along spatial axes."""

from __future__ import annotations

from collections.abc import Sequence

#: One number for every spatial axis, or one for each.
Extents = int | tuple[int, ...]


def slide(
    size: Sequence[int],
    reach: Sequence[int],
    step: Sequence[int],
    pads: tuple[Sequence[int], Sequence[int]],
    *,
    is_up: bool = False,
) -> list[int]:
    """The extents that a window leaves which reaches so far, rounded down or up."""
    axes = zip(size, reach, step, *pads, strict=True)
    return [(e + p + q - r + (s - 1) * is_up) // s + 1 for e, r, s, p, q in axes]


def spread_over(value: Extents, rank: int) -> list[int]:
    """One number for each axis."""
    return [value] * rank if isinstance(value, int) else list(value)
