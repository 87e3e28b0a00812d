"""``partita plan --real``: runs on workers are what a planner learns from."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from partita.cli.actions.real import learns, make_run, tune_plan
from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from tests.memory_lab import memory_lab
from tests.planners.distredge.small import quick_method
from tests.planners.fakes import make_chain


def test_planners_that_learn_use_runs_themselves() -> None:
    """Those that do not learn are tuned instead."""
    assert learns("distredge")
    assert not learns("best")


def test_other_planners_are_tuned() -> None:
    """Each round's plan runs on workers, and the result is of the best round's plan."""
    cluster = Cluster.of([Device(name, kind="raspberry-pi-4") for name in ("a", "b")])
    cost = CostModel(make_chain(3), cluster)
    with memory_lab(cluster.devices) as lab:
        run = make_run(cost, lab.endpoint, seed=0)
        tuned, result = tune_plan(cost, "equal_rows", PlanOptions(in_flight=2), run)
    assert 2 <= len(tuned.rounds) <= 10
    assert result.plan == tuned.best.plan
    assert tuned.best.seconds == min(done.seconds for done in tuned.rounds)
    assert len(tuned.best.measured.latencies_s) == 8


@pytest.mark.skipif(find_spec("stable_baselines3") is None, reason="needs partita[train]")
def test_plans_are_run_on_workers() -> None:
    """Workers answer every plan that is tried, and the seconds that they took are what counts."""
    cluster = Cluster.of([Device(name, kind="raspberry-pi-4") for name in ("a", "b")])
    cost = CostModel(make_chain(3), cluster)
    seen: list[float] = []
    with memory_lab(cluster.devices) as lab:
        run = make_run(cost, lab.endpoint, seed=0)

        def measure(plan: Plan) -> float:
            seen.append(run(plan).quantile_s(0.5))
            return seen[-1]

        options = PlanOptions(method=quick_method("distredge", episodes="2"), measure=measure)
        result = find_plan(cost, planner="distredge", options=options)
    assert len(seen) == 2
    assert min(seen) > 0
    assert result.plan.planner == "distredge"
