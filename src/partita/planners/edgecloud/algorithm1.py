"""AUTO-SPLIT's Algorithm 1: splits of little error for a grid of memory budgets.

Source: AUTO-SPLIT, Algorithm 1. The paper computes the budgets before the loop over cuts, though
they depend on the cut; here they are computed inside. Nothing in it asks for little latency: which
splits are soon only the choice among them looks at.
"""

from __future__ import annotations

from collections.abc import Iterator

from partita.planners.edgecloud.bit_allocation import allocate_activations, allocate_weights
from partita.planners.edgecloud.split_problem import CLOUD_ONLY, Split, SplitProblem


def grid_splits(problem: SplitProblem, *, exact: bool) -> list[Split]:
    """Splits that fit in the edge's memory, each once, all in the cloud first.

    Args:
        exact: Whether the weights' widths are the best for each budget, or the Lagrangian's.
    """
    splits = {CLOUD_ONLY: None}
    for cut in problem.cuts:
        splits |= dict.fromkeys(_splits_at(problem, cut, exact=exact))
    return list(splits)


def _splits_at(problem: SplitProblem, cut: int, *, exact: bool) -> Iterator[Split]:
    network, widths = problem.network, problem.widths
    elements, fixed = network.working_elements(cut)
    tables = problem.weight_errors[:cut], problem.activation_errors[:cut]
    activations = {
        width: (elements.sum(axis=1) * width + fixed).max(initial=0) for width in widths if cut
    }
    for weight_width in widths if cut else ():
        weight_budget = sum(network.weights[:cut]) * weight_width
        weights = allocate_weights(network, tables[0], widths, weight_budget, exact=exact)
        for budget in activations.values():
            if weights is None or weight_budget + budget > problem.edge_memory_bits:
                continue
            made = allocate_activations(network, tables[1], widths, budget)
            split = None if made is None else Split(cut, weights, made)
            if split is not None and problem.is_feasible(split):
                yield split
