"""AUTO-SPLIT's Algorithm 1: splits of little error for a grid of memory budgets.

Source: AUTO-SPLIT, Algorithm 1. The paper computes the budgets before the loop over cuts, though
they depend on the cut; here they are computed inside. Nothing in it asks for little latency: which
splits are soon only the choice among them looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from partita.planners.edgecloud.bit_allocation import (
    Bits,
    allocate_activations,
    allocate_weights,
)
from partita.planners.edgecloud.split_problem import CLOUD_ONLY, Split, SplitProblem
from partita.planners.pricing.budget import is_never_over

#: How weights' widths are found for a budget: the best there are, or points of the convex hull.
Allocation = Literal["exact", "lagrangian"]


def grid_splits(
    problem: SplitProblem,
    ways: Sequence[Allocation],
    is_over: Callable[[], bool] = is_never_over,
) -> list[Split]:
    """Splits that fit in the edge's memory, each once, all in the cloud first.

    Args:
        ways: Of allocating weights, one after the other.
        is_over: Whether time is, after which no further cut is looked at.
    """
    made: dict[int, dict[float, Bits | None]] = {}
    for cut in filter(None, problem.cuts):
        if is_over():
            break
        made[cut] = dict(_list_activations(problem, cut))
    splits = {CLOUD_ONLY: None}
    for way in ways:
        for cut in made:
            if is_over():
                break
            splits |= dict.fromkeys(_splits_at(problem, cut, made[cut], way))
    return list(splits)


def _list_activations(problem: SplitProblem, cut: int) -> Iterator[tuple[float, Bits | None]]:
    """Yield the budgets of activations before a cut, and the widths of least error in each."""
    network, widths, errors = problem.network, problem.widths, problem.activation_errors[:cut]
    elements, fixed = network.working_elements(cut)
    for width in widths:
        budget = (elements.sum(axis=1) * width + fixed).max(initial=0)
        yield budget, allocate_activations(network, errors, widths, budget)


def _splits_at(
    problem: SplitProblem, cut: int, activations: dict[float, Bits | None], way: Allocation
) -> Iterator[Split]:
    network, widths, errors = problem.network, problem.widths, problem.weight_errors[:cut]
    for weight_width in widths:
        weight_budget = sum(network.weights[:cut]) * weight_width
        weights = allocate_weights(network, errors, widths, weight_budget, exact=way == "exact")
        for budget, made in activations.items():
            if weights is None or made is None:
                continue
            split = Split(cut, weights, made)
            if weight_budget + budget <= problem.edge_memory_bits and problem.is_feasible(split):
                yield split
