"""Ways through replicated stages, as far as they matter to one step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

from partita.program.steps import Choice
from partita.regions import Region, subtract_all

When = tuple[Choice, ...]
Chosen = dict[int, int]
Boxes = tuple[Region, ...]
#: Ways that are looked at one by one: those through two stages of 128 replicas each.
MAX_WAYS = 2**14


class TooManyWays(Exception):
    """There are more than are looked at."""


def list_ways(groups: Iterable[int], routes: Sequence[int]) -> Iterator[Chosen]:
    """Yield all ways to choose of some replicated stages.

    Raises:
        TooManyWays: There are more than :data:`MAX_WAYS`.
    """
    free = sorted(groups)
    if prod(routes[group] for group in free) > MAX_WAYS:
        raise TooManyWays
    for alternatives in product(*(range(routes[group]) for group in free)):
        yield dict(zip(free, alternatives, strict=True))


def holds(when: When, chosen: Mapping[int, int]) -> bool:
    """Whether a choice is made; a stage that nothing is chosen of contradicts nothing."""
    return all(chosen.get(group, alternative) == alternative for group, alternative in when)


def find_gap(
    wanted: Region, pieces: Sequence[tuple[When, Region]], fixed: Chosen, routes: Sequence[int]
) -> tuple[Region, Chosen] | None:
    """Some part of a region that its pieces leave out on some way, and that way.

    Stages that no piece depends on together are looked at by themselves: only what their ways
    differ in is combined.

    Args:
        pieces: When each is there, and what it covers.
        fixed: Choices that are made.
        routes: Replicas of each replicated stage.

    Raises:
        TooManyWays: There are more than :data:`MAX_WAYS`.
    """
    there = [
        (tuple(choice for choice in when if choice[0] not in fixed), box)
        for when, box in pieces
        if holds(when, fixed)
    ]
    always = tuple(box for when, box in there if not when)
    covers = [_covers(groups, there, routes) for groups in _join_stages(w for w, _ in there if w)]
    if prod(map(len, covers)) > MAX_WAYS:
        raise TooManyWays
    for some in product(*(each.items() for each in covers)):
        boxes = [*always, *(box for found, _ in some for box in found)]
        gaps = subtract_all(wanted, boxes)
        if gaps or not boxes:
            chosen = dict(fixed)
            for _, way in some:
                chosen |= way
            return (gaps[0] if gaps else wanted), chosen
    return None


def _join_stages(whens: Iterable[When]) -> list[set[int]]:
    """The stages that something depends on, together where it depends on several."""
    joined: list[set[int]] = []
    for when in whens:
        groups = {group for group, _ in when}
        apart = [other for other in joined if groups.isdisjoint(other)]
        joined = [*apart, groups.union(*(other for other in joined if other not in apart))]
    return joined


def _covers(
    groups: set[int], pieces: Sequence[tuple[When, Region]], routes: Sequence[int]
) -> dict[Boxes, Chosen]:
    """What is there of the pieces that depend on some stages: each with one way to it."""
    own = [(when, box) for when, box in pieces if when and when[0][0] in groups]
    found: dict[Boxes, Chosen] = {}
    for way in list_ways(groups, routes):
        boxes = tuple(dict.fromkeys(box for when, box in own if holds(when, way)))
        found.setdefault(boxes, way)
    return found
