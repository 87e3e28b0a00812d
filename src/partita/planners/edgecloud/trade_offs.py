"""Splits of less and less error, the soonest first: what accuracy is weighed against latency by.

Source: AUTO-SPLIT, section 4.2. Algorithm 1 finds splits of little error for a grid of budgets of
memory; here each bound on the sum of errors has its soonest split, and no split of the grid that is
as soon has less error. One width for all on the edge is there whatever its sum of errors: sums over
many layers say little of accuracy beside those over few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

import numpy as np

from partita.planners.edgecloud.algorithm1 import grid_splits
from partita.planners.edgecloud.least_latency import SoonestSplit
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
        exact: Whether widths are the best there are beside those of the Lagrangian: of the same
            budget the best weights may have more bits where they take time.
        as_printed: Whether splits are those of Algorithm 1 alone, as it is printed.
    """
    splits = grid_splits(problem, ["exact", "lagrangian"] if exact else ["lagrangian"])
    count = len(problem.network.layers)
    uniform = set[Split]()
    if not as_printed:
        uniform = {Split.uniform(count, width) for width in problem.widths}
        splits += [one.split for one in list_soonest([problem], most_error)] if exact else ()
    listed = [
        Candidate(problem.latency_s(s), problem.error(s), s)
        for s in dict.fromkeys((*splits, *uniform))
    ]
    kept = [one for one in listed if problem.is_feasible(one.split, most_error)]
    if as_printed:
        return sorted(kept)
    return sorted({*pareto(kept), *(one for one in kept if one.split in uniform)})


def list_soonest(problems: Sequence[SplitProblem], most_error: float = inf) -> list[Candidate]:
    """The soonest split before the cloud for each bound on the sum of errors, where there is one.

    Args:
        problems: One network between devices of several choices.
        most_error: The only bound; by default they go down from the errors of the narrowest width.
    """
    search = SoonestSplit(problems)
    found = (search.find(bound) for bound in _error_bounds(problems[0], most_error))
    return [one for one in found if one is not None]


def _error_bounds(problem: SplitProblem, most_error: float) -> list[float]:
    sums = (problem.weight_errors + problem.activation_errors).sum(axis=0)
    sums = sums[sums > 0]
    if most_error < inf or not sums.size:
        return [most_error]
    return [float(one) for one in np.geomspace(sums.max(), sums.min() * _FINEST, _BOUNDS)]


def pareto(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that no other is sooner than at as little error, by latency."""
    kept: list[Candidate] = []
    for one in sorted(candidates):
        if not kept or one.error < kept[-1].error:
            kept.append(one)
    return kept
