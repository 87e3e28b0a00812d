"""Lower bound."""

from __future__ import annotations

from partita.planners.evaluate import Evaluator


def lower_bound_s(evaluator: Evaluator) -> float:
    """Return 0."""
    return 0.0
