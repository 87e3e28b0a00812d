"""Splits of less and less error, the soonest first: what accuracy is weighed against latency by.

Source: AUTO-SPLIT, section 4.2. Algorithm 1 finds splits of little error for a grid of budgets of
memory; here each bound on the sum of errors has its soonest split, and no split of the grid that is
as soon has less error. One width for all on the edge is there whatever its sum of errors: sums over
many layers say little of accuracy beside those over few.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np

from partita.planners.edgecloud.algorithm1 import grid_splits
from partita.planners.edgecloud.least_latency import soonest_split
from partita.planners.edgecloud.split_problem import Candidate, Split, SplitProblem

#: Bounds on the sum of errors that are tried, in equal steps of its logarithm. Not tuned.
_BOUNDS = 12
#: Errors that are thought of below those of the widest width for all layers.
_FINEST = 1e-2


def list_candidates(
    problem: SplitProblem, *, exact: bool, as_printed: bool, most_error: float = inf
) -> list[Candidate]:
    """Splits that fit in memory and keep to a bound on errors, the soonest first.

    Args:
        exact: Whether widths are the best there are, or those of the Lagrangian.
        as_printed: Whether splits are those of Algorithm 1 alone, as it is printed.
    """
    splits = list(grid_splits(problem, exact=exact))
    count = len(problem.network.layers)
    uniform = set[Split]()
    if not as_printed:
        uniform = {Split.uniform(count, width) for width in problem.widths}
        splits += _soonest(problem, most_error) if exact else ()
    listed = [
        Candidate(problem.latency_s(s), problem.error(s), s)
        for s in dict.fromkeys((*splits, *uniform))
    ]
    kept = [one for one in listed if problem.is_feasible(one.split, most_error)]
    if as_printed:
        return sorted(kept)
    return sorted({*pareto(kept), *(one for one in kept if one.split in uniform)})


def _soonest(problem: SplitProblem, most_error: float) -> Iterable[Split]:
    """The soonest splits by bounds on the sum of errors."""
    if most_error < inf:
        return [soonest_split(problem, most_error).split]
    sums = (problem.weight_errors + problem.activation_errors).sum(axis=0)
    sums = sums[sums > 0]
    if not sums.size:
        return [soonest_split(problem, inf).split]
    bounds = np.geomspace(sums.max(), sums.min() * _FINEST, _BOUNDS)
    return [soonest_split(problem, float(bound)).split for bound in bounds]


def pareto(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that no other is sooner than at as little error, by latency."""
    kept: list[Candidate] = []
    for one in sorted(candidates):
        if not kept or one.error < kept[-1].error:
            kept.append(one)
    return kept
