"""Who plans anew in a run, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from partita.adapting import replanner
from partita.cli.actions.run import make_search
from partita.cli.flags import AdaptFlags
from partita.planners import Result, find_plan
from tests.planners.fakes import make_chain, make_cost


@pytest.mark.parametrize(
    ("adapt", "given_s", "most_s"),
    [(False, 7.0, 7.0), (False, None, 0.5), (True, None, 3.0), (True, 7.0, 7.0)],
)
def test_a_loss_is_planned_around_as_the_flags_say(
    monkeypatch: pytest.MonkeyPatch, adapt: bool, given_s: float | None, most_s: float
) -> None:
    """``--planner`` and ``--budget`` count with ``--recover`` alone, too."""
    cost = make_cost(make_chain(3), 1e7, 2e7, 2e7)
    asked: list[float] = []

    def find(*arguments: Any, **more: Any) -> Result:
        asked.append(more["options"].most_s)
        return find_plan(*arguments, **more)

    monkeypatch.setattr(replanner, "find_plan", find)
    flags = AdaptFlags(adapt, True, 0.25, 3.0, "aofl", given_s)
    plan = make_search(find_plan(cost).plan, flags)(cost)  # type: ignore[arg-type]
    assert (plan.planner, asked) == ("aofl", [most_s])
