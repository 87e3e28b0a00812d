"""What a search may spend: parts of it, and what takes nothing of it."""

from __future__ import annotations

import pytest

from partita.planners import PlanOptions
from partita.planners.pricing.budget import Budget


@pytest.mark.parametrize(("budget_s", "left_s"), [(None, 9.0), (10.0, 4.0)])
def test_judging_takes_none_of_the_usual_time(budget_s: float | None, left_s: float) -> None:
    """A budget is a promise, and counts it; so it is for one method of several."""
    now_s = [0.0]
    budget = Budget(PlanOptions(budget_s=budget_s, most_s=10.0), lambda: now_s[0])
    with budget.within(0.5):
        now_s[0] += 1.0
        with budget.aside():
            now_s[0] += 5.0
        assert budget.left_s == pytest.approx(left_s - 5.0)
    assert budget.left_s == pytest.approx(left_s)
