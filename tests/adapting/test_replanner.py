"""Plans for a running session: what is proposed, kept, expected and recovered."""

from __future__ import annotations

import dataclasses
import gc
import sys

import pytest
from msgspec.structs import replace
from tests.planners.fakes import make_chain

from partita.adapting.finder import make_finder
from partita.adapting.replanner import Replanner, predict_s
from partita.cluster import Cluster, Device, Link
from partita.compile import check_plan
from partita.cost import CostModel, update_cost
from partita.cost.memory import PROCESS_BYTES, SESSION_BYTES
from partita.errors import PlanError
from partita.execution import Conditions
from partita.leader import Lost
from partita.plan import Plan, Shard, Stage, hash_plan
from partita.planners import PlanOptions, find_plan
from partita.simulation import predict_period_s

NAMES = ("cam", "box", "pad")
RATE = 5e6


def make_cost(medium: str | None = None) -> CostModel:
    """Three devices, each linked to each, at a rate that makes messages count."""
    devices = [Device(name, kind="raspberry-pi-3") for name in NAMES]
    links = [Link(a, b, RATE, 1e-4, medium=medium) for a in NAMES for b in NAMES if a != b]
    graph = make_chain(3, height=8, channels=64)
    return CostModel(graph, Cluster.of(devices, links=links))


def plan_on(cost: CostModel, device: str) -> Plan:
    """The plan that has one device do everything."""
    return find_plan(cost, planner="single", options=PlanOptions(devices=(device,))).plan


class Finder:
    """A search that gives one device after the other and keeps what it was given."""

    def __init__(self, *devices: str) -> None:
        self.devices = list(devices)
        self.costs: list[CostModel] = []

    def __call__(self, cost: CostModel) -> Plan:
        """The plan on the next device."""
        self.costs.append(cost)
        return plan_on(cost, self.devices.pop(0))


def test_a_proposal_is_priced_beside_the_running_plan_under_the_same_conditions() -> None:
    """Both latencies are of the links as measured; nothing runs before it is adopted."""
    cost = make_cost()
    replanner = Replanner(cost, plan_on(cost, "box"), Finder("cam"))
    first = replanner.key
    rates = dict.fromkeys(cost.links, RATE / 100)
    measured = Conditions(rates, dict.fromkeys(NAMES, 2.0))
    proposed = replanner.propose(measured)
    model = update_cost(cost, measured)
    assert proposed.predicted_s == pytest.approx(predict_s(model, plan_on(cost, "cam")))
    assert proposed.present_s == pytest.approx(predict_s(model, plan_on(cost, "box")))
    assert proposed.predicted_s < proposed.present_s
    assert replanner.assumed == measured
    assert replanner.key == first != proposed.key
    replanner.adopt(proposed.key)
    assert replanner.plan == plan_on(cost, "cam")


def test_with_requests_in_flight_a_proposal_is_priced_by_answers() -> None:
    """A plan that answers more often is the better one, however long each request queues."""
    cost = make_cost()
    alone = replace(plan_on(cost, "box"), in_flight=8)
    stage = Stage("all", tuple(layer.name for layer in cost.graph.layers), "replica",
                  tuple(map(Shard, NAMES)), shares=(1, 1, 1))  # fmt: skip
    replicas = replace(alone, stages=(stage,))
    replanner = Replanner(cost, alone, lambda _: replicas)
    proposed = replanner.propose(replanner.assumed)
    assert proposed.predicted_s == pytest.approx(proposed.present_s / 3, rel=0.05)
    assert proposed.present_s == pytest.approx(predict_period_s(cost, alone), rel=1e-3)


def test_a_running_plan_is_priced_as_it_runs() -> None:
    """Its replica on a device that has become slow passes turns on, so that little is lost."""
    cost = make_cost()
    stage = Stage("all", tuple(layer.name for layer in cost.graph.layers), "replica",
                  tuple(map(Shard, NAMES)), shares=(1, 1, 1))  # fmt: skip
    plan = replace(plan_on(cost, "box"), in_flight=12, stages=(stage,))
    even = update_cost(cost, Conditions({}, dict.fromkeys(NAMES, 100.0)))
    slow = update_cost(cost, Conditions({}, dict.fromkeys(NAMES, 100.0) | {"pad": 200.0}))
    assert predict_s(slow, plan) == pytest.approx(3 / 2.5 * predict_s(even, plan), rel=0.03)
    assert predict_period_s(slow, plan) == pytest.approx(2 * predict_s(even, plan), rel=0.03)


def test_a_search_without_a_plan_leaves_everything_as_it_was() -> None:
    """The error comes out; conditions and running plan are the old ones."""
    cost = make_cost()

    def find(_: CostModel) -> Plan:
        raise PlanError("No plan fits.")

    replanner = Replanner(cost, plan_on(cost, "box"), find)
    before = replanner.key, replanner.assumed
    with pytest.raises(PlanError, match="No plan fits"):
        replanner.propose(Conditions({}, {"box": 9.0}))
    assert (replanner.key, replanner.assumed) == before


def test_the_last_compiled_plans_are_kept_for_a_way_back() -> None:
    """Rolling back compiles nothing; a plan that was not used for long is compiled anew."""
    cost = make_cost()
    replanner = Replanner(cost, plan_on(cost, "cam"), Finder("box", "pad", "cam"))
    first = replanner.compile(replanner.key)
    keys = [replanner.propose(replanner.assumed).key for _ in range(2)]
    for key in keys:
        assert replanner.compile(key) is not first
    assert replanner.compile(replanner.key) is first
    assert set(replanner._compiled) == {replanner.key, *keys}


def test_a_lost_device_is_planned_around_for_good() -> None:
    """Its links and speed are forgotten; a second loss takes both devices out."""
    cost = make_cost()
    finder = Finder("box", "cam")
    replanner = Replanner(cost, plan_on(cost, "pad"), finder)
    compiled = replanner.recover(Lost(("pad",)))
    assert {part.device for part in compiled.program.devices} == {"cam", "box"}
    assert replanner.plan == plan_on(finder.costs[0], "box")
    assert set(replanner.assumed.slowness) == {"cam", "box"}
    assert set(replanner.assumed.rates) == {("cam", "box"), ("box", "cam")}
    compiled = replanner.recover(Lost(("pad", "box")))
    assert [part.device for part in compiled.program.devices] == ["cam"]
    assert replanner.assumed.rates == {}


def test_after_a_loss_the_plan_in_force_is_predicted() -> None:
    """Not the one that is over; for as slow a device as it was found to be when it was planned."""
    cost = make_cost()
    replanner = Replanner(cost, plan_on(cost, "pad"), Finder("box", "cam"))
    before_s = replanner.predict(2).quantile_s(0.5)
    assert before_s == pytest.approx(predict_s(cost, plan_on(cost, "pad")))
    replanner.propose(Conditions(replanner.assumed.rates, {"cam": 9.0}))
    replanner.recover(Lost(("pad",)))
    after = replanner.predict(3, in_flight=4)
    slow = update_cost(cost, Conditions({}, {"cam": 9.0}))
    assert len(after.latencies_s) == 3
    assert after.quantile_s(0.5) == pytest.approx(predict_s(slow, plan_on(cost, "cam")))
    assert after.quantile_s(0.5) != pytest.approx(before_s)


def test_replicas_go_on_without_a_lost_one() -> None:
    """Planned for throughput the others take its requests, and the plan is sound."""
    cost = make_cost()
    options = PlanOptions(objective="throughput", in_flight=6, max_evaluations=200)
    found = find_plan(cost, options=options).plan
    stage = Stage("all", tuple(layer.name for layer in cost.graph.layers), "replica",
                  tuple(map(Shard, NAMES)), shares=(1, 2, 2))  # fmt: skip
    replanner = Replanner(cost, replace(found, stages=(stage,)))
    before_s = predict_period_s(cost, replanner.plan)
    replanner.recover(Lost(("pad",)))
    rest = CostModel(cost.graph, cost.cluster.without("pad"))
    check_plan(rest.graph, replanner.plan, rest.cluster)
    assert predict_period_s(rest, replanner.plan) < 2 * before_s


@pytest.mark.parametrize("fault", [PlanError("It needs all links."), ValueError("min() of ()")])
def test_a_lost_link_is_planned_around(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Neither direction is there; where the planner fails, which is told, best is asked."""
    cost = make_cost()
    asked: list[CostModel] = []

    def find(model: CostModel) -> Plan:
        asked.append(model)
        raise fault

    replanner = Replanner(cost, find_plan(cost, planner="cut").plan, find)
    with caplog.at_level("DEBUG", "partita"):
        compiled = replanner.recover(Lost.link("pad", "cam"))
    assert str(fault) in caplog.text
    assert "Traceback" in caplog.text
    pairs = {("cam", "pad"), ("pad", "cam")}
    assert set(asked[0].links) == set(cost.links) - pairs
    streams = compiled.program.streams
    assert not pairs & {(stream.source, stream.target) for stream in streams}
    assert not pairs & set(replanner.assumed.rates)


@pytest.mark.parametrize("medium", [None, "radio"])
def test_links_of_one_medium_are_expected_to_take_turns(medium: str | None) -> None:
    """A link of its own has nothing to wait for; on a shared one turns count as expected."""
    cost = make_cost(medium)
    replanner = Replanner(cost, plan_on(cost, "box"), Finder())
    expected = replanner.expect(replanner.key)
    assert min(expected.compute_s.values()) > 0
    assert set(expected.stretch) == (set() if medium is None else {("cam", "box"), ("box", "cam")})
    assert all(factor >= 1 for factor in expected.stretch.values())


def test_what_a_slower_port_adds_is_no_drift() -> None:
    """Messages through a port of a third of the link's rate are expected to take three times."""
    cost = make_cost()
    rate = cost.links["cam", "box"].bandwidth_bytes_per_s
    devices = [
        dataclasses.replace(device, port_bytes_per_s=rate / 3 if device.name == "box" else None)
        for device in cost.cluster.devices
    ]
    cluster = dataclasses.replace(cost.cluster, devices=tuple(devices))
    behind = CostModel(cost.graph, cluster, profiles=cost.profiles)
    replanner = Replanner(behind, plan_on(behind, "box"), Finder())
    stretch = replanner.expect(replanner.key).stretch
    assert set(stretch) == {("cam", "box"), ("box", "cam")}
    assert stretch["cam", "box"] == pytest.approx(3, rel=0.05)


def test_two_plans_at_once_hold_both_weights_and_work_in_one_arena() -> None:
    """What a process takes whatever it runs counts once, and the arena of the larger one."""
    cost = make_cost()
    replanner = Replanner(cost, plan_on(cost, "box"), Finder("box", "pad"))
    first = replanner.compile(replanner.key).program
    other = replanner.compile(replanner.propose(replanner.assumed).key).program
    alone = cost.memory(cost.layout(replanner.plan))["box"]
    held = replanner.held_bytes([first, other])
    both = 2 * (alone.weights + alone.pieces + SESSION_BYTES)
    assert held["box"] == PROCESS_BYTES + both + alone.arena
    assert replanner.held_bytes([first])["box"] == alone.total


def test_what_stands_by_takes_over_without_a_search() -> None:
    """It is planned once, by its neighbours first and better if a search finds better."""
    cost = make_cost()
    finder = Finder("cam")
    replanner = Replanner(cost, find_plan(cost, planner="cut").plan, finder)
    running = hash_plan(replanner.plan)
    lost = Lost(("pad",))
    first = replanner.stand_by(running, lost, search=False)
    assert finder.costs == []
    assert {part.device for part in first.program.devices} <= {"cam", "box"}
    assert replanner.stand_by(running, lost, search=False) is first
    better = replanner.stand_by(running, lost, search=True)
    plans = [replanner.plan_of(each.program.plan_hash) for each in (first, better)]
    (model,) = finder.costs
    assert set(model.devices) == {"cam", "box"}
    assert predict_s(model, plans[1]) <= predict_s(model, plans[0])
    assert replanner.plan_of(running) == replanner.plan
    assert replanner.recover(lost) is better
    assert replanner.plan == plans[1]


def test_what_ran_before_is_proposed_when_what_was_lost_is_back() -> None:
    """Without a search, once; a worse one than what runs is no reason not to search."""
    cost = make_cost()
    finder = Finder("box", "box")
    replanner = Replanner(cost, plan_on(cost, "cam"), finder)
    first = replanner.key
    assert replanner.recover(Lost(("pad",))).program.devices
    assert len(finder.costs) == 1
    replanner.set_lost(Lost())
    assert set(replanner.assumed.slowness) == set(NAMES)
    assert replanner.propose(replanner.assumed).key == first
    assert len(finder.costs) == 1
    assert replanner.propose(replanner.assumed).key != first
    assert len(finder.costs) == 2


def test_a_planned_loss_is_no_search_either() -> None:
    """Who lets a device go sets what takes over, by the hash that its program has."""
    cost = make_cost()
    replanner = Replanner(cost, find_plan(cost, planner="cut").plan, Finder())
    lost = Lost(("pad",))
    compiled = replanner.stand_by(hash_plan(replanner.plan), lost, search=False)
    replanner.take_over(replanner.key_of(compiled.program.plan_hash), lost)
    assert hash_plan(replanner.plan) == compiled.program.plan_hash
    assert set(replanner.assumed.slowness) == {"cam", "box"}


def test_a_search_leaves_no_memory_taken() -> None:
    """A leader searches for as long as it runs: what a search remembers goes with it."""
    cost = make_cost()
    find = make_finder(plan_on(cost, "box"), most_s=0.3)
    find(cost)
    cost.forget()
    gc.collect()
    before = sys.getallocatedblocks()
    find(cost)
    gc.collect()
    assert sys.getallocatedblocks() - before < 1000
