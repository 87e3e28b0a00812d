"""Who fetches which box of a tensor from whom: one rule, for programs and for prices of drafts.

A device uses what it holds, in the order in which it got it (:func:`use_held`). Each missing part
comes from who owns it, the owner with the fastest link first (:func:`nearest_first`,
:func:`fetch_missing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from partita.regions import Interval, Region

Box = TypeVar("Box")
Owner = TypeVar("Owner")


@dataclass(frozen=True)
class BoxKind(Generic[Box]):
    """What the rule must know of boxes.

    Attributes:
        subtract: What is left of the first without the second, in disjoint boxes.
    """

    overlaps: Callable[[Box, Box], bool]
    intersect: Callable[[Box, Box], Box]
    subtract: Callable[[Box, Box], list[Box]]


def use_held(kind: BoxKind[Box], box: Box, held: Sequence[Box]) -> tuple[list[int], list[Box]]:
    """The numbers of a device's own pieces that hold parts of a box, and what is missing.

    Args:
        held: In the order in which the device got them.
    """
    overlaps, subtract = kind.overlaps, kind.subtract
    missing = [box]
    used: list[int] = []
    for number, piece in enumerate(held):
        for part in missing:  # a loop, as planners ask very often
            if overlaps(part, piece):
                break
        else:
            continue
        used.append(number)
        missing = [left for part in missing for left in subtract(part, piece)]
        if not missing:
            break
    return used, missing


def fetch_missing(
    kind: BoxKind[Box], missing: list[Box], owned: Sequence[Box]
) -> tuple[list[tuple[int, Box]], list[Box]]:
    """Which owner sends which box, in the order of sending, and what nobody owns.

    Args:
        missing: What a device does not hold.
        owned: What others own, in the order of :func:`nearest_first`.
    """
    overlaps, subtract = kind.overlaps, kind.subtract
    sent: list[tuple[int, Box]] = []
    for number, piece in enumerate(owned):
        for part in tuple(missing):
            if overlaps(part, piece):
                common = kind.intersect(part, piece)
                sent.append((number, common))
                missing = [left for one in missing for left in subtract(one, common)]
        if not missing:
            break
    return sent, missing


def nearest_first(owners: Sequence[Owner], rate: Callable[[Owner], float]) -> Sequence[Owner]:
    """Owners, those with the fastest link first; in the order of the plan where equal.

    Args:
        owners: In the order of the plan.
        rate: Bytes per second of an owner's link to the device that fetches; 0 without a link.
    """
    return sorted(owners, key=rate, reverse=True) if len(owners) > 1 else owners


def _spans_overlap(one: Interval, other: Interval) -> bool:
    (start, stop), (low, high) = one, other  # compared one by one, as planners ask very often
    return start < high and low < stop and start < stop and low < high


def _common_span(one: Interval, other: Interval) -> Interval:
    (start, stop), (low, high) = one, other
    return (max(start, low), min(stop, high))


def _subtract_span(one: Interval, other: Interval) -> list[Interval]:
    (start, stop), (low, high) = one, other
    if not _spans_overlap(one, other):
        return [one] if start < stop else []
    left = []
    if start < low:
        left.append((start, low))
    if high < stop:
        left.append((high, stop))
    return left


#: Boxes of any number of axes.
REGIONS = BoxKind(Region.overlaps, Region.intersect, Region.subtract)
#: Spans of the one axis along which all boxes of a tensor differ: the same, several times as fast.
SPANS = BoxKind(_spans_overlap, _common_span, _subtract_span)
