"""Splits of less and less error, the soonest first: what accuracy is weighed against latency by.

Source: AUTO-SPLIT, section 4.2. Algorithm 1 finds splits of little error for a grid of budgets of
memory; here each bound on the sum of errors has its soonest split, and no split of the grid that is
as soon has less error. Sums say little of accuracy where one is over many layers and another over
few, so two kinds are there whatever theirs: one width for all on the edge, and floats of which
nothing is rounded but what crosses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import inf

import numpy as np

from partita.planners.edgecloud.algorithm1 import grid_splits
from partita.planners.edgecloud.least_latency import SoonestSplit
from partita.planners.edgecloud.split_problem import Candidate, Split, SplitProblem
from partita.planners.pricing.budget import is_never_over

#: Bounds on the sum of errors that are tried, in equal steps of its logarithm. Not tuned.
_BOUNDS = 12
#: Errors that are thought of below those of the widest width for all layers.
_FINEST = 1e-2


def list_candidates(
    problem: SplitProblem,
    *,
    exact: bool,
    as_printed: bool,
    most_error: float = inf,
    is_over: Callable[[], bool] = is_never_over,
) -> list[Candidate]:
    """Splits that fit in memory and keep to a bound on errors, the soonest first.

    Args:
        exact: Whether widths are the best there are beside those of the Lagrangian: of the same
            budget the best weights may have more bits where they take time.
        as_printed: Whether splits are those of Algorithm 1 alone, as it is printed.
        is_over: Whether time is, after which those are listed that are known, and simple ones.
    """
    splits = grid_splits(problem, ["exact", "lagrangian"] if exact else ["lagrangian"], is_over)
    count = len(problem.network.layers)
    apart = set[Split]()
    if not as_printed:
        apart = {Split.uniform(count, width) for width in problem.widths}
        apart |= {one.split for one in pareto(list_float_edges(problem))}
        soonest = list_soonest([problem], most_error, is_over) if exact else []
        splits += [one.split for one in soonest]
    listed = [
        Candidate(problem.latency_s(s), problem.error(s), s)
        for s in dict.fromkeys((*splits, *apart))
    ]
    kept = [one for one in listed if problem.is_feasible(one.split, most_error)]
    if as_printed:
        return sorted(kept)
    return sorted({*pareto(kept), *(one for one in kept if one.split in apart)})


def list_float_edges(problem: SplitProblem) -> Iterator[Candidate]:
    """Splits that fit, whose edge computes in floats, and all that crosses has one width."""
    floats = problem.widths[-1]
    for cut, width in product(problem.cuts, problem.widths[:-1]):
        made = {problem.network.makers[tensor] for tensor in problem.network.crossing[cut]}
        bits = tuple(width if layer in made else floats for layer in range(cut))
        split = Split(cut, (floats,) * cut, bits)
        if cut and problem.is_feasible(split):
            yield Candidate(problem.latency_s(split), problem.error(split), split)


def list_soonest(
    problems: Sequence[SplitProblem],
    most_error: float = inf,
    is_over: Callable[[], bool] = is_never_over,
) -> list[Candidate]:
    """The soonest split before the cloud for each bound on the sum of errors, where there is one.

    Where there are several bounds, also what has least error at the cuts of these and is as soon.

    Args:
        problems: One network between devices of several choices.
        most_error: The only bound; by default they go down from the errors of the narrowest width.
        is_over: Whether time is, after which those are listed that are known.
    """
    search = SoonestSplit(problems, is_over)
    bounds = _error_bounds(problems[0], most_error)
    found = [one for bound in bounds if (one := search.find(bound)) is not None]
    if len(bounds) > 1:
        distinct = {(one.split.first, one.split.cut, one.latency_s): one for one in found}
        found += [one for each in distinct.values() if (one := search.refine(each)) is not None]
    return found


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
