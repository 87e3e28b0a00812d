"""In which order the replicas of a stage take requests, where each has a share of them."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import gcd

from partita.program.steps import Choice, Program

#: The shares of a stage add up to at most this, so that its order can be kept as a list: a share is
#: then right to a thousandth of all requests, finer than devices keep their speed.
MAX_SHARES = 1000


@lru_cache(maxsize=1024)
def share_order(shares: tuple[int, ...]) -> tuple[int, ...]:
    """Which alternative each of ``sum(shares)`` requests in a row takes; then it begins anew.

    Of the first ``n`` requests alternative ``i`` has less than one more or less than its
    ``n * shares[i] / sum(shares)``, for every ``n``; of any requests in a row so less than two, and
    with two alternatives at most one. Closer cannot be had: for most shares of three or more no
    order keeps every window within one. It is the earliest deadline first among those that are due,
    of Tijdeman, "The chairman assignment problem", 1980.

    Args:
        shares: Whole numbers, at least 1 each.

    >>> share_order((3, 1))
    (0, 0, 1, 0)
    """
    count, total = len(shares), sum(shares)
    if count == 1:
        return (0,) * total
    # Everything is counted in 1 / (2 count - 2), Tijdeman's slack.
    unit = 2 * count - 2
    taken = [0] * count
    order = []
    for number in range(1, total + 1):
        due = [
            alternative
            for alternative, share in enumerate(shares)
            if unit * (share * number - total * taken[alternative]) >= total
        ]
        chosen = min(due, key=lambda one: (unit * (taken[one] + 1) - 1) / shares[one])
        taken[chosen] += 1
        order.append(chosen)
    return tuple(order)


def most_unanswered(
    alternatives: int, in_flight: int, shares: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """The most requests in flight that each alternative of a stage has at one time.

    With shares its part of those in flight and one more, or as many as if all had as many: together
    more than may be in flight, so that somebody always has room. Without, the least busy one takes
    the next.

    >>> most_unanswered(2, 8), most_unanswered(2, 8, (3, 1))
    ((4, 4), (7, 4))
    """
    if not shares:
        return (-(-in_flight // alternatives),) * alternatives
    even, total = in_flight // alternatives, sum(shares)
    parts = (max(even, 1 - (-in_flight * share // total)) for share in shares)
    return tuple(min(in_flight, part) for part in parts)


def most_in_flight(program: Program, when: tuple[Choice, ...]) -> int:
    """The most requests in flight that make these choices; all where there are none."""
    most = program.in_flight
    for group, alternative in when:
        shares = program.shares[group] if program.shares else ()
        parts = most_unanswered(program.routes[group], program.in_flight, shares)
        most = min(most, parts[alternative])
    return most


def request_share(program: Program, when: tuple[Choice, ...]) -> float:
    """The share of requests that make these choices.

    Alternatives without shares count as equally likely, whatever the others are.

    Raises:
        ValueError: Three choices or more have shares; a stage that was laid out has two at most.
    """
    share = 1.0
    fixed: list[tuple[tuple[int, ...], int]] = []
    for group, alternative in when:
        shares = program.shares[group] if program.shares else ()
        if shares:
            fixed.append((shares, alternative))
        else:
            share /= program.routes[group]
    if len(fixed) > 2:
        raise ValueError(f"choices {when} of three or more stages with shares")
    if len(fixed) == 2:
        return share * _joint_share(fixed[0], fixed[1])
    return share * (fixed[0][0][fixed[0][1]] / sum(fixed[0][0]) if fixed else 1.0)


def _joint_share(one: tuple[tuple[int, ...], int], other: tuple[tuple[int, ...], int]) -> float:
    """How often two orders meet in their alternatives, over their common period."""
    period = gcd(sum(one[0]), sum(other[0]))
    counts = [
        Counter(
            number % period for number, taken in enumerate(share_order(shares)) if taken == chosen
        )
        for shares, chosen in (one, other)
    ]
    # By the Chinese remainder theorem places meet once where they agree modulo the common divisor.
    meetings = sum(count * counts[1][place] for place, count in counts[0].items())
    return meetings * period / (sum(one[0]) * sum(other[0]))
