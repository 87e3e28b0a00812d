"""Where ranges should end for the least sum of costs, by dynamic programming."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Chain:
    """Ranges that follow each other from the first place on.

    Attributes:
        cost: Sum over the ranges.
        ends: Where each range ends.
    """

    cost: float
    ends: tuple[int, ...]


def least_chains(
    places: Sequence[int], range_cost: Callable[[int, int], float]
) -> dict[int, Chain]:
    """For each place but the first the chain of ranges up to it that costs least.

    Args:
        places: In order.
        range_cost: Of the range between two places; infinite where the range, and then each longer
            one from the same start, cannot be.

    >>> least_chains([0, 1, 2], lambda start, stop: (stop - start) ** 2 + 1)[2]
    Chain(cost=4.0, ends=(1, 2))
    """
    chains = {places[0]: Chain(0.0, ())}
    for number, start in enumerate(places):
        if start not in chains:
            continue
        begun = chains[start]
        for stop in places[number + 1 :]:
            cost = range_cost(start, stop)
            if cost == inf:
                break
            if stop not in chains or begun.cost + cost < chains[stop].cost:
                chains[stop] = Chain(begun.cost + cost, (*begun.ends, stop))
    del chains[places[0]]
    return chains
