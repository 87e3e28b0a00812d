"""One option for each item within one limit: by the Lagrangian, and exactly.

Source: Shoham and Gersho, "Efficient bit allocation for an arbitrary set of quantizers" (1988), for
the Lagrangian, which finds points of the lower convex hull alone. The exact choice is a dynamic
program over what the first items take and cost. A table by bits would have as many columns as the
memory has bits; this one keeps only what nothing else is better than in both, and what with the
best of the rest, fractions of options allowed, may still be better than the Lagrangian's choice. An
integer program takes ten times as long, and its tolerances come on top.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class _Step(NamedTuple):
    """A step along one item's hull; sorted by what it costs per use, which is below 0."""

    slope: float
    item: int
    number: int
    option: int
    use: float


def choose_by_lagrangian(
    costs: Floats, uses: Floats, most: float, *, fills: bool = False
) -> tuple[int, ...] | None:
    """Options on the lower convex hull of costs over uses, as far down as a limit allows.

    From the option of least use of each item, the steps that save most per use are taken one after
    the other, of equal ones that of the first item; the first step that does not fit ends it.

    Args:
        costs: By item and option.
        uses: By item and option, not below 0.
        most: Limit of the sum of uses.
        fills: Whether steps that still fit are taken after the first that does not.

    Returns:
        None where the options of least use do not fit.
    """
    start, steps = _hull_steps(costs, uses)
    chosen = list(start)
    used = uses[range(len(chosen)), chosen].sum()
    if used > most:
        return None
    ended = set[int]()
    for step in steps:
        if step.item in ended or used + step.use > most:
            if not fills:
                break
            ended.add(step.item)  # its next step begins where this one ends
            continue
        chosen[step.item] = step.option
        used += step.use
    return tuple(chosen)


def choose_least(costs: Floats, uses: Floats, most: float) -> tuple[int, ...] | None:
    """Options whose costs sum to the least within one limit.

    Args:
        costs: By item and option.
        uses: By item and option, not below 0.
        most: Limit of the sum of uses.

    Returns:
        None where the options of least use do not fit.
    """
    known = choose_by_lagrangian(costs, uses, most, fills=True)
    if known is None:
        return None
    items = range(len(costs))
    rest = _Rest(costs, uses)
    upper = costs[items, known].sum()
    used, cost = np.zeros(1), np.zeros(1)
    passed: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
    for item in items:
        all_used = (used[:, None] + uses[item]).reshape(-1)
        all_cost = (cost[:, None] + costs[item]).reshape(-1)
        bound = all_cost + rest.least(item + 1, most - all_used)
        kept = np.flatnonzero(bound <= upper + 1e-12 * abs(upper))
        order = kept[np.lexsort((all_cost[kept], all_used[kept]))]
        lowest = np.minimum.accumulate(all_cost[order])
        is_better = np.append(True, lowest[1:] < lowest[:-1])[: len(order)]
        order = order[is_better]
        used, cost = all_used[order], all_cost[order]
        passed.append(np.divmod(order, costs.shape[1]))
    if not len(cost) or cost.min(initial=np.inf) >= upper:
        return known
    return _trace(passed, int(cost.argmin()))


def _trace(passed: list[tuple[NDArray[np.intp], NDArray[np.intp]]], state: int) -> tuple[int, ...]:
    """The options that led to a state."""
    chosen = []
    for states, options in reversed(passed):
        chosen.append(int(options[state]))
        state = int(states[state])
    return tuple(reversed(chosen))


class _Rest:
    """What the last items cost at least in some room, fractions of options allowed."""

    def __init__(self, costs: Floats, uses: Floats) -> None:
        start, steps = _hull_steps(costs, uses)
        items = range(len(start))
        self._least = uses[items, start], costs[items, start]
        self._items = np.array([step.item for step in steps], int)
        self._uses = np.array([step.use for step in steps])
        self._costs = np.array([step.use * step.slope for step in steps])

    def least(self, first: int, room: Floats) -> Floats:
        """The cost of items from ``first`` on, by room; infinite where they do not fit."""
        needs, cost = (each[first:].sum() for each in self._least)
        later = self._items >= first
        ends = np.cumsum([needs, *self._uses[later]])
        levels = np.cumsum([cost, *self._costs[later]])
        least: Floats = np.interp(room, ends, levels, left=np.inf)
        return least


def _hull_steps(costs: Floats, uses: Floats) -> tuple[list[int], list[_Step]]:
    """Each item's option of least use, and all steps from there, the most saving first."""
    hulls = [_lower_hull(*item) for item in zip(costs, uses, strict=True)]
    steps = []
    for item, hull in enumerate(hulls):
        for number, (start, stop) in enumerate(pairwise(hull)):
            use = float(uses[item, stop] - uses[item, start])
            slope = float(costs[item, stop] - costs[item, start]) / use
            steps.append(_Step(slope, item, number, stop, use))
    return [hull[0] for hull in hulls], sorted(steps)


def _lower_hull(costs: Floats, uses: Floats) -> list[int]:
    """Options of one item from the least use to the least cost, each saving less per use."""
    hull: list[int] = []
    for option in sorted(range(len(costs)), key=lambda o: (uses[o], costs[o])):
        if hull and costs[option] >= costs[hull[-1]]:
            continue
        while len(hull) > 1 and _saving(costs, uses, hull[-2], hull[-1]) <= _saving(
            costs, uses, hull[-2], option
        ):
            hull.pop()
        hull.append(option)
    return hull


def _saving(costs: Floats, uses: Floats, start: int, stop: int) -> float:
    return float((costs[start] - costs[stop]) / (uses[stop] - uses[start]))
