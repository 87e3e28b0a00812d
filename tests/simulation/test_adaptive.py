"""Long simulated runs whose plans change with their links."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.planners.fakes import make_chain

from partita.adapting.methods import make_method, take_every_plan
from partita.cluster import Cluster, Device, Link
from partita.cost import CostModel, update_cost
from partita.errors import PlanError
from partita.execution import AdaptOptions, Conditions
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.simulation import Method, Searched, plan_key, simulate, simulate_adaptive
from partita.simulation.environment import Environment, StepFunction

FAST, SLOW = 50e6, 1e5
OPTIONS = AdaptOptions(hold_s=1.0, window_s=1.0, pause_s=1.0, trial=4, probe_s=2.0)
WISHES = PlanOptions(most_s=20.0, max_evaluations=60)


def make_cost(*changes: tuple[float, float], memory: int = 10**9, channels: int = 64) -> CostModel:
    """Return a slow requester and a fast device, whose links have the given changes of rate."""
    devices = [
        Device("cam", kind="raspberry-pi-3", memory_bytes=memory),
        Device("box", kind="jetson-xavier", memory_bytes=memory),
    ]
    links = [Link(a, b, FAST, 1e-4, trace=changes) for a, b in (("cam", "box"), ("box", "cam"))]
    graph = make_chain(3, height=8, channels=channels)
    return CostModel(graph, Cluster.of(devices, links=links))


def plan_on(cost: CostModel, device: str) -> Plan:
    """Return the plan that has one device do everything."""
    return find_plan(cost, planner="single", options=PlanOptions(devices=(device,))).plan


def method(cost: CostModel, *devices: str, **values: object) -> Method:
    """Return a method whose searches give one device after the other, the last one for ever."""
    left = list(devices)

    def search(_: CostModel) -> Searched:
        return Searched(plan_on(cost, left.pop(0) if len(left) > 1 else left[0]))

    return Method("fixed", search, options=OPTIONS, **values)  # type: ignore[arg-type]


def test_constant_links_give_what_the_simulation_gives() -> None:
    """Without changes each request takes the simulated latency, one after the other."""
    cost = make_cost()
    run = simulate_adaptive(cost, method(cost, "box"), duration_s=1.0, interval_s=0.1)
    layout = cost.layout(plan_on(cost, "box"))
    (expected_s,) = simulate(layout.program, cost.price(layout)).latencies_s
    assert run.latencies_s == pytest.approx([expected_s] * 10)
    assert run.starts_s == pytest.approx([0.1 * k for k in range(10)])
    assert run.changes == ()


def test_requests_across_a_change_of_rate_are_simulated_exactly() -> None:
    """A request that is under way when the rate changes takes what the traces say, to the end."""
    cost = make_cost((0.0001, SLOW), (5.0, FAST))
    world = Environment(cost)
    priced = world.price(plan_on(cost, "box"))
    layout = cost.layout(priced.plan)
    (expected_s,) = simulate(layout.program, cost.price(layout)).latencies_s
    assert world.latency_s(priced, 0.0) == pytest.approx(expected_s)
    assert world.latency_s(priced, 10.0) < expected_s / 2


def test_a_collapsed_link_moves_the_work_and_a_recovered_one_brings_it_back() -> None:
    """The plan follows the links both ways; the idle link's recovery is seen by probes."""
    cost = make_cost((20.0, SLOW), (40.0, FAST))
    found = make_method("single", options=WISHES, adapt=OPTIONS, search_s=0.5)
    run = simulate_adaptive(cost, found, duration_s=60.0, interval_s=0.1)
    outcomes = [change.outcome for change in run.changes if change.switched_s is not None]
    assert outcomes == ["switched", "switched"]
    first, second = (c.switched_s for c in run.changes if c.switched_s is not None)
    assert first is not None
    assert second is not None
    assert 21.0 <= first <= 24.0
    assert 41.0 <= second <= 46.0
    assert run.epochs[0] == 0
    assert run.epochs[-1] == 2
    assert plan_key(run.plans[0]) == plan_key(run.plans[2]) != plan_key(run.plans[1])
    assert run.mean_between(50, 60) == pytest.approx(run.mean_between(0, 10))


def test_a_charged_search_delays_the_switch_and_the_old_plan_goes_on() -> None:
    """The same method pays for its search time by the requests that run under the old plan."""
    cost = make_cost((5.0, SLOW))
    runs = [
        simulate_adaptive(
            cost,
            make_method("single", options=WISHES, adapt=OPTIONS, search_s=search_s),
            duration_s=60.0,
            interval_s=1.0,
        )
        for search_s in (0.0, 30.0)
    ]
    free, charged = (run.changes[0].switched_s for run in runs)
    assert free is not None
    assert charged is not None
    assert charged - free == pytest.approx(30.0, abs=1.5)
    assert runs[1].mean_s > runs[0].mean_s


def test_a_plan_that_is_slower_than_predicted_is_rolled_back() -> None:
    """When a device is slower than believed and nothing tells, the measured latencies do."""
    cost = make_cost((5.0, FAST / 3))
    slow = {"cam": [(0.0, 50.0)]}
    lying = replace(method(cost, "cam"), options=replace(OPTIONS, least_gain=-1e9))
    run = simulate_adaptive(
        cost, lying, duration_s=20.0, interval_s=0.1, plan=plan_on(cost, "box"), slowness=slow
    )
    assert run.changes[0].outcome == "rolled back"
    assert plan_key(run.plans[-1]) == plan_key(run.plans[0])


def test_a_slow_device_is_noticed_by_its_step_times() -> None:
    """A device that becomes slower is a reason to plan, with its slowness in the reason."""
    cost = make_cost()
    run = simulate_adaptive(
        cost,
        make_method("single", options=WISHES, adapt=OPTIONS, search_s=0.0),
        duration_s=20.0,
        interval_s=0.1,
        slowness={"box": [(5.0, 500.0)]},
    )
    assert run.changes[0].outcome == "switched"
    assert "device box takes 500.00 times as long" in run.changes[0].why


def test_without_memory_for_two_plans_requests_wait_for_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A switch that cannot be prepared beside the running plan costs the next request its time."""
    monkeypatch.setattr(Environment, "load_s", lambda self, priced: 3.0)
    slowest = []
    for memory in (10**9, 20_000_000):  # the weights are 12 MB
        cost = make_cost((5.0, 10 * SLOW), memory=memory, channels=256)
        both = find_plan(cost, planner="equal_rows").plan
        found = Method("fixed", lambda _, plan=both: Searched(plan), 0.0, OPTIONS)
        found = replace(found, options=replace(OPTIONS, least_gain=-1e9, trial=0))
        run = simulate_adaptive(
            cost, found, duration_s=12.0, interval_s=0.5, plan=plan_on(cost, "box")
        )
        assert run.changes[0].outcome == "switched"
        slowest.append(max(run.latencies_s))
    assert slowest[0] < 1.0
    assert slowest[1] > 3.0


def test_a_steered_method_changes_its_plan_with_every_request() -> None:
    """Steering sees what is measured and takes effect at once."""
    cost = make_cost((5.0, SLOW))
    seen: list[float] = []

    def steer(model: CostModel) -> Plan:
        rate = model.links["cam", "box"].bandwidth_bytes_per_s
        seen.append(rate)
        return plan_on(cost, "cam" if rate < FAST / 2 else "box")

    never = replace(OPTIONS, threshold=1e9, probe_s=1.0)
    found = Method("steered", method(cost, "box").search, 0.0, never, steer)
    run = simulate_adaptive(cost, found, duration_s=10.0, interval_s=0.5)
    assert seen[0] == FAST
    assert seen[-1] == SLOW
    assert run.latencies_s[-1] == pytest.approx(Environment(cost).latency_s(
        Environment(cost).price(plan_on(cost, "cam")), 9.0
    ))  # fmt: skip


def test_a_search_that_finds_nothing_changes_nothing() -> None:
    """An error of the planner is on record, and the run goes on."""
    cost = make_cost((5.0, SLOW))

    def search(_: CostModel) -> Searched:
        raise PlanError("nothing fits")

    found = Method("none", search, 0.0, OPTIONS)
    run = simulate_adaptive(cost, found, duration_s=10.0, interval_s=0.5, plan=plan_on(cost, "box"))
    assert run.changes[0].detail == "nothing fits"
    assert len(run.plans) == 1


def test_equal_runs_give_equal_results() -> None:
    """Where searches are charged a fixed time, a run can be repeated exactly."""
    cost = make_cost((3.0, SLOW), (6.0, FAST))
    found = make_method("single", options=WISHES, adapt=take_every_plan(OPTIONS), search_s=1.0)
    first, second = (
        simulate_adaptive(cost, found, duration_s=10.0, interval_s=0.25) for _ in range(2)
    )
    assert first == second


def test_an_updated_cost_model_differs_in_rates_and_speeds_only() -> None:
    """What was measured replaces rates and traces, and multiplies what devices take."""
    cost = make_cost((5.0, SLOW))
    new = update_cost(cost, Conditions({("cam", "box"): 1000.0}, {"box": 2.0}))
    assert new.transfer_s("cam", "box", 1000) == pytest.approx(1.0001)
    assert new.links["cam", "box"].trace == ()
    assert new.links["box", "cam"] == cost.links["box", "cam"]
    plan = plan_on(cost, "box")
    before, after = (sum(one.busy_s(one.layout(plan)).values()) for one in (cost, new))
    assert after == pytest.approx(2 * before)


def test_a_course_has_exact_means() -> None:
    """The mean over an interval counts each value by its time, before the first change too."""
    course = StepFunction(1.0, [(2.0, 3.0), (4.0, 5.0)])
    assert course.mean(0.0, 6.0) == pytest.approx(3.0)
    assert course.mean(3.0, 3.0) == 3.0
    assert course.mean(0.0, 1.0) == 1.0
    assert course.between(1.0, 4.0) == [(1.0, 3.0)]
    assert StepFunction(7.0).mean(2.0, 9.0) == pytest.approx(7.0)
