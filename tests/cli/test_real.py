"""``partita plan --real``: runs on workers are what a planner learns from."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from partita.cli.actions.real import check_learns, make_measure
from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import InputError
from partita.planners import PlanOptions, find_plan
from tests.memory_lab import memory_lab
from tests.planners.distredge.small import quick_method
from tests.planners.fakes import make_chain


def test_only_planners_that_learn_take_runs() -> None:
    """A planner that does not learn is refused, and those that do are named."""
    check_learns("distredge")
    with pytest.raises(InputError, match=r"\(distredge, distredge_published\), not for 'best'"):
        check_learns("best")


@pytest.mark.skipif(find_spec("stable_baselines3") is None, reason="needs partita[train]")
def test_plans_are_run_on_workers() -> None:
    """Workers answer every plan that is tried, and the seconds that they took are what counts."""
    cluster = Cluster.of([Device(name, kind="raspberry-pi-4") for name in ("a", "b")])
    cost = CostModel(make_chain(3), cluster)
    seen: list[float] = []
    with memory_lab(cluster.devices) as lab:
        run = make_measure(cost, lab.endpoint, seed=0)

        def measure(plan: object) -> float:
            seen.append(run(plan))  # type: ignore[arg-type]
            return seen[-1]

        options = PlanOptions(method=quick_method("distredge", episodes="2"), measure=measure)
        result = find_plan(cost, planner="distredge", options=options)
    assert len(seen) == 2
    assert min(seen) > 0
    assert result.plan.planner == "distredge"
