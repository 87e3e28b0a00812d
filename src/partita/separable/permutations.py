"""Who sends to whom: permutations by number (table 3)."""

from __future__ import annotations

from itertools import permutations
from math import factorial

from partita.errors import ModelError

#: Most groups whose permutations have numbers that are counted one by one.
MOST_GROUPS = 8


def permutation(number: int, groups: int) -> tuple[int, ...]:
    """The permutation of this number, counted from 0 in lexicographic order.

    Entry i is the group to which group i sends; a group that is its own target sends nothing.

    Raises:
        ModelError: There is no such number.
    """
    if not 0 <= number < factorial(groups):
        raise ModelError(
            f"permutation {number}: allowed for {groups} groups are 0 to {factorial(groups) - 1}",
            subject="policy",
        )
    rest = list(range(groups))
    chosen = []
    for left in range(groups - 1, -1, -1):
        place, number = divmod(number, factorial(left))
        chosen.append(rest.pop(place))
    return tuple(chosen)


def number_of(targets: tuple[int, ...]) -> int:
    """The number of a permutation; the inverse of :func:`permutation`."""
    rest = sorted(targets)
    number = 0
    for left, target in zip(range(len(targets) - 1, -1, -1), targets, strict=True):
        place = rest.index(target)
        rest.pop(place)
        number += place * factorial(left)
    return number


def count_sends(number: int, groups: int) -> int:
    """How many groups send."""
    return sum(target != group for group, target in enumerate(permutation(number, groups)))


def derangements(groups: int) -> list[int]:
    """The numbers of permutations in which every group sends.

    Raises:
        ModelError: There are too many to count.
    """
    if groups > MOST_GROUPS:
        raise ModelError(f"groups = {groups}: permutations are listed for up to {MOST_GROUPS}")
    return [
        number
        for number, targets in enumerate(permutations(range(groups)))
        if all(target != group for group, target in enumerate(targets))
    ]
