"""One option for each item such that what they take together stays within limits.

Two ways for the multiple-choice knapsack problem: the Lagrangian (Shoham and Gersho, "Efficient bit
allocation for an arbitrary set of quantizers", 1988), which finds points of the lower convex hull
alone, and exactly, as an integer program that HiGHS solves. A dynamic program over bits would need
a table of as many columns as the memory has bits, and one more dimension per further limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, eye_array, kron

Floats = NDArray[np.float64]

#: What the largest cost is scaled to: the solver takes differences below 1e-6 for none.
_SCALE = 1e4
#: By how much a limit is tightened where the solver's tolerance let a choice exceed it.
_TIGHTER = 2e-6


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
    hulls = [_lower_hull(*item) for item in zip(costs, uses, strict=True)]
    used = sum(uses[item, hull[0]] for item, hull in enumerate(hulls))
    if used > most:
        return None
    chosen = [hull[0] for hull in hulls]
    steps = [
        ((costs[item, to] - costs[item, start]) / (uses[item, to] - uses[item, start]), item, n, to)
        for item, hull in enumerate(hulls)
        for n, (start, to) in enumerate(pairwise(hull))
    ]
    ended = set[int]()
    for _, item, _, to in sorted(steps):
        more = uses[item, to] - uses[item, chosen[item]]
        if item in ended or used + more > most:
            if not fills:
                break
            ended.add(item)  # a later step would skip this one
            continue
        chosen[item] = to
        used += more
    return tuple(chosen)


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


def choose_exactly(
    costs: Floats, uses: Sequence[Floats], most: Sequence[float], *, gap: float = 0.0
) -> tuple[int, ...] | None:
    """Options of least cost within several limits.

    Args:
        costs: By item and option; infinite for an option that is not there.
        uses: Of each limit, by item and option, not below 0.
        most: Limits of the sums of uses.
        gap: Part by which the sum of costs may be above the least.

    Returns:
        None where no choice keeps to the limits.
    """
    items, options = costs.shape
    limited = [(use, limit) for use, limit in zip(uses, most, strict=True) if limit < inf]
    if any(limit < 0 for _, limit in limited) or not np.isfinite(costs).any(axis=1).all():
        return None
    if not items:
        return ()
    limits = np.array([limit for _, limit in limited], float)
    table = np.array([use for use, _ in limited], float).reshape(len(limits), items * options)
    allowed = np.isfinite(costs).reshape(-1) & (table <= limits[:, None]).all(axis=0)
    objective = np.where(allowed, _scaled(costs), 0.0)
    one_each = LinearConstraint(kron(eye_array(items), np.ones((1, options))), 1, 1)
    share, bound = np.where(limits > 0, limits, 1.0), limits.copy()
    while True:
        kept = LinearConstraint(csr_array(table / share[:, None]), -inf, bound / share)
        found = milp(
            objective,
            integrality=np.ones(items * options),
            bounds=Bounds(0, allowed.astype(float)),
            constraints=[one_each, kept],
            options={"mip_rel_gap": gap},
        )
        if found.x is None:
            return None
        chosen = found.x.reshape(items, options).argmax(axis=1)
        used = table.reshape(-1, items, options)[:, range(items), chosen].sum(axis=1)
        over = used > limits * (1 + 1e-12)
        if not over.any():
            return tuple(int(option) for option in chosen)
        bound = np.where(over, bound - _TIGHTER * share, bound)


def _scaled(costs: Floats) -> Floats:
    """Costs above the least of each item, flat, in the solver's range."""
    above: Floats = (costs - costs.min(axis=1, keepdims=True)).reshape(-1)
    most = above[np.isfinite(above)].max(initial=0.0)
    return above / most * _SCALE if most > 0 else above
