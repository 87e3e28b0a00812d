"""Plans that are made anew from their own runs."""

from __future__ import annotations

import pytest
from tests.planners.fakes import make_chain

from partita.adapting.tuning import MOST_ROUNDS, TuningRound, tune
from partita.cluster import Cluster, Device
from partita.cost import CostModel, update_cost
from partita.errors import PlanError
from partita.execution import Conditions, Report
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.simulation import predict

NAMES = ("cam", "box", "pad", "hub")


def make_cost() -> CostModel:
    """Four boards of one kind, linked each to each."""
    devices = [Device(name, kind="raspberry-pi-3") for name in NAMES]
    graph = make_chain(6, height=128, channels=256)
    return CostModel(graph, Cluster.of(devices, bandwidth_bytes_per_s=125e6, latency_s=1e-4))


def find(cost: CostModel) -> Plan:
    """The planner of these tests, which is quick."""
    return find_plan(cost, planner="aofl").plan


@pytest.mark.parametrize("wrong", [{"box": 2.0, "pad": 0.5}, {"cam": 0.5, "hub": 0.5}, {"cam": 2}])
def test_wrong_profiles_are_put_right_within_three_rounds(wrong: dict[str, float]) -> None:
    """Devices twice as slow or fast as profiled: the plan is as good as from right profiles."""
    believed = make_cost()
    true = update_cost(believed, Conditions(slowness=wrong))
    seen: list[TuningRound] = []

    def run(plan: Plan) -> Report:
        return predict(true, plan, requests=3)

    tuned = tune(believed, find, run, progress=seen.append)
    right_s = predict(true, find(true), requests=3).quantile_s(0.5)
    assert tuned.best.seconds <= 1.05 * right_s
    assert len(tuned.rounds) <= 3
    assert seen == list(tuned.rounds)
    for name, factor in wrong.items():
        assert tuned.rounds[-1].slowness[name] == pytest.approx(factor, rel=0.05)


def test_replicas_in_unequal_numbers_say_how_fast_devices_are() -> None:
    """One that is slower than believed answers fewer requests than expected: that is no speed."""
    believed = make_cost()
    wrong = {"box": 2.0, "pad": 0.5}
    true = update_cost(believed, Conditions(slowness=wrong))
    options = PlanOptions("throughput", in_flight=8)

    def find_rate(cost: CostModel) -> Plan:
        return find_plan(cost, planner="collaborative", options=options).plan

    first = tune(believed, find_rate, lambda plan: predict(true, plan, requests=32)).rounds[0]
    assert "replica" in {stage.axis for stage in first.plan.stages}
    for name, factor in first.slowness.items():
        assert factor == pytest.approx(wrong.get(name, 1.0), rel=0.01)


def test_a_device_believed_too_slow_is_found() -> None:
    """What a plan leaves idle is measured, else it would be idle for ever."""
    believed = update_cost(make_cost(), Conditions(slowness={"hub": 50.0}))
    true = update_cost(make_cost(), Conditions(slowness={"hub": 0.5}))

    def find_single(cost: CostModel) -> Plan:
        return find_plan(cost, planner="single").plan

    tuned = tune(believed, find_single, lambda plan: predict(true, plan, requests=2))
    used = [done.plan.stages[0].shards[0].device for done in tuned.rounds]
    assert used[0] != "hub"
    assert set(used[1:]) == {"hub"}
    assert tuned.rounds[-1].slowness["hub"] == pytest.approx(0.5 / 50)


def test_rounds_end_where_nothing_is_gained() -> None:
    """Right profiles: the second round gains nothing, and there is no third."""
    cost = make_cost()
    tuned = tune(cost, find, lambda plan: predict(cost, plan, requests=2))
    assert len(tuned.rounds) == 2
    assert tuned.rounds[0].seconds == pytest.approx(tuned.rounds[0].predicted.quantile_s(0.5))


def test_rounds_are_bounded_and_failures_pass_through() -> None:
    """A cluster that seems ever faster ends by the number of rounds; no plan is an error."""
    cost = make_cost()
    speed = [1.0]

    def faster(plan: Plan) -> Report:
        speed[0] *= 0.9
        return predict(update_cost(cost, Conditions(slowness=dict.fromkeys(NAMES, speed[0]))), plan)

    assert len(tune(cost, find, faster).rounds) == MOST_ROUNDS

    def none(cost: CostModel) -> Plan:
        raise PlanError("No plan.")

    with pytest.raises(PlanError, match="No plan"):
        tune(cost, none, faster)
