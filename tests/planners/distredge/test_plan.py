"""DistrEdge as planners: settings, real runs, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from partita.cluster import Cluster, Device
from partita.errors import InfeasibleError, PlanError
from partita.plan import Plan, dump_plan
from partita.planners import PlanOptions, find_plan, get_planner, planner_names
from partita.planners.distredge import plan as plan_module
from tests.planners.distredge.small import quick_method, small_cost
from tests.planners.fakes import FakeCost, make_chain, make_cost, make_gated

NAMES = ("distredge", "distredge_published")
needs_training = pytest.mark.skipif(
    find_spec("stable_baselines3") is None, reason="needs partita[train]"
)


def test_importing_planners_does_not_load_torch() -> None:
    """A process that plans by other methods never pays for PyTorch."""
    code = (
        "import sys, partita.planners;"
        "sys.exit(any(name in sys.modules for name in ('torch', 'gymnasium', 'stable_baselines3')))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PyTorch the planner says in one line how to install it."""
    monkeypatch.setattr(plan_module, "find_spec", lambda name: None)
    with pytest.raises(PlanError, match=r"pip install '\.\[train\]'") as caught:
        find_plan(small_cost(), planner="distredge")
    assert "\n" not in caught.value.message


def test_best_does_not_train() -> None:
    """Both are for comparison: the other planners never ask them."""
    assert {get_planner(name).cost for name in NAMES} == {"training"}
    assert planner_names()[-2:] == NAMES


@needs_training
@pytest.mark.parametrize("name", NAMES)
def test_plans_are_repeatable_and_priced_as_all_are(name: str) -> None:
    """Equal seeds give equal plans, priced by the cost model and no better than the bound."""
    options = PlanOptions(method=quick_method(*NAMES))
    result = find_plan(small_cost(), planner=name, options=options)
    again = find_plan(small_cost(), planner=name, options=options)
    assert dump_plan(result.plan) == dump_plan(again.plan)
    assert result.status == "heuristic"
    assert result.lower_bound_s <= result.latency_s < float("inf")
    assert result.plan.planner == name


@needs_training
def test_repaired_is_no_worse_than_the_rules_it_begins_with() -> None:
    """Eight episodes suffice to keep the best of equal shares, shares by speed and one device."""
    options = PlanOptions(method=quick_method("distredge", episodes="8", alpha="1"))
    result = find_plan(small_cost(), planner="distredge", options=options)
    assert result.latency_s <= result.best_single_s


@needs_training
def test_real_runs_decide_where_they_are_given() -> None:
    """With a way to measure, the plan that measured best is chosen, whatever was predicted."""
    seen: list[Plan] = []

    def measure(plan: Plan) -> float:
        seen.append(plan)
        return 1.0 / len(seen)

    options = PlanOptions(method=quick_method("distredge"), measure=measure)
    result = find_plan(small_cost(), planner="distredge", options=options)
    assert len(seen) == 12
    assert result.plan.stages == seen[-1].stages


@needs_training
def test_more_devices_than_rows_and_gated_networks_are_planned() -> None:
    """Devices without rows get none; means over space between volumes are no trouble."""
    many = make_cost(make_chain(2), *[1e8] * 11, bandwidth=1e9)
    options = PlanOptions(method=quick_method("distredge"))
    assert find_plan(many, planner="distredge", options=options).latency_s > 0
    gated = make_cost(make_gated(), 1e7, 2e7, bandwidth=1e9)
    assert find_plan(gated, planner="distredge", options=options).latency_s > 0


def test_one_device_needs_no_training() -> None:
    """With one provider there is nothing to learn: the plan is the whole network there."""
    result = find_plan(make_cost(make_chain(2), 1e8), planner="distredge")
    assert len(result.plan.stages) == 1


@needs_training
def test_no_memory_anywhere_is_infeasible() -> None:
    """Where no plan fits the error says why the last one did not."""
    graph = make_chain(2)
    cluster = Cluster.of([Device("d0", memory_bytes=1000), Device("d1", memory_bytes=1000)])
    cost = FakeCost(graph, cluster, {"d0": 1e8, "d1": 1e8})
    options = PlanOptions(method=quick_method("distredge_published"))
    with pytest.raises(InfeasibleError, match=r"12 episodes; .*does not fit on device 'd"):
        find_plan(cost, planner="distredge_published", options=options)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("distredge.alfa", "1", "unknown; 'distredge' has: alpha, decisions"),
        ("distredge.alpha", "much", "must be a number"),
        ("distredge.alpha", "2", "allowed: 0 to 1"),
        ("distredge.episodes", "1.5", "must be a whole number"),
        ("distredge.episodes", "0", "allowed: 1 or more"),
        ("distredge.learn", "maybe", "must be true or false"),
        ("distredge.scores", "none", "must be normalised or raw"),
        ("distredge.seconds", "-1", "allowed: 0 or more"),
        ("single.depth", "1", "'single' has: none"),
        ("nothing.alpha", "1", "Planner 'nothing' is unknown"),
    ],
)
def test_wrong_settings_are_refused(key: str, value: str, words: str) -> None:
    """Settings are checked for whichever planner they are, before anything is planned."""
    options = PlanOptions(method={key: value})
    with pytest.raises(PlanError, match=words):
        find_plan(small_cost(), planner="single", options=options)


@needs_training
def test_time_ends_a_training_where_it_is_limited() -> None:
    """With no seconds at all one episode is tried, and the result says that it was cut short."""
    options = PlanOptions(method=quick_method("distredge", seconds="0"))
    assert find_plan(small_cost(), planner="distredge", options=options).status == "cut short"
