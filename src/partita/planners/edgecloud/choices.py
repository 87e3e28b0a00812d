"""One option for each item such that what they take together stays within several limits.

The multiple-choice knapsack problem as an integer program that HiGHS solves: a dynamic program
would have one more dimension per limit. For one limit see :mod:`.knapsack`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, eye_array, kron

from partita.planners.edgecloud.knapsack import Floats
from partita.planners.edgecloud.solver_output import without_lines

#: What the largest cost is scaled to: the solver takes differences below 1e-6 for none.
_SCALE = 1e4
#: By how much a limit is tightened where the solver's tolerance let a choice exceed it.
_TIGHTER = 2e-6
#: What the solver prints wherever it repairs a solution.
_CHATTER = b"HighsMipSolverData::"


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
    table = np.where(allowed, table, 0.0)  # over a tiny limit the others would be infinite
    objective = np.where(allowed, _scaled(costs), 0.0)
    one_each = LinearConstraint(kron(eye_array(items), np.ones((1, options))), 1, 1)
    share, bound = np.where(limits > 0, limits, 1.0), limits.copy()
    while True:
        kept = LinearConstraint(csr_array(table / share[:, None]), -inf, bound / share)
        with without_lines(_CHATTER):
            found = milp(
                objective,
                integrality=np.ones(items * options),
                bounds=Bounds(0, allowed.astype(float)),
                constraints=[one_each, kept],
                # Presolving saves a fifth of the time, but then the solver prints more.
                options={"mip_rel_gap": gap, "presolve": False},
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
