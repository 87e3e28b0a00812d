"""The plans that a session knows by name."""

from __future__ import annotations

import pytest
from tests.adapting.test_replanner import NAMES, Finder, make_cost, plan_on

from partita.adapting import known_plans
from partita.adapting.replanner import Replanner
from partita.execution import Conditions
from partita.plan import hash_plan


def test_a_session_for_months_knows_the_plans_that_it_used_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that runs is among them, however many were found since it began."""
    monkeypatch.setattr(known_plans, "_MOST", 2)
    cost = make_cost()
    cam, box, pad = (plan_on(cost, name) for name in NAMES)
    replanner = Replanner(cost, box, Finder("cam", "pad"))
    replanner.propose(Conditions())
    replanner.propose(Conditions())
    assert replanner.plan == box
    with pytest.raises(KeyError):
        replanner.plan_of(hash_plan(cam))
    hashes = [hash_plan(plan) for plan in (cam, box, pad, box)]
    assert replanner.plans_of(hashes) == [box, pad, box]
