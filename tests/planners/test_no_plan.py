"""What is said where there is no plan: that none is possible with a proof only."""

from __future__ import annotations

import itertools
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial

import pytest

from partita.cluster import Cluster, Device, Link
from partita.cost import CostModel
from partita.errors import InfeasibleError, OverfullError, UnfinishedError
from partita.planners import Objective, PlanOptions, find_plan, get_planner
from partita.planners import find as find_module
from partita.planners.bounds.reach import reached_devices
from partita.planners.no_plan import check_possible
from partita.planners.pricing import evaluator as evaluator_module
from partita.planners.pricing.budget import Budget
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen
from partita.quantisation import ErrorTable, QuantisationData
from tests.planners.fakes import FakeCost, make_chain, make_dense, make_wide

#: A look at the clock takes so long.
TICK_S = 2e-3
LINKS = [("d0", "d1"), ("d1", "d0"), ("d1", "d2"), ("d2", "d1"), ("d0", "d3")]


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> list[Budget]:
    """Let budgets be spent by looking at the clock; the list holds those that were made."""
    made: list[Budget] = []

    def make(options: PlanOptions) -> Budget:
        made.append(Budget(options, partial(next, itertools.count(0.0, TICK_S))))
        return made[-1]

    monkeypatch.setattr(evaluator_module, "Budget", make)
    return made


def tight(*sizes: int) -> FakeCost:
    """Layers that no device of 5 kB holds together; three of 2600 B hold them divided."""
    devices = [Device(f"d{number}", memory_bytes=size) for number, size in enumerate(sizes)]
    return FakeCost(make_dense(2), Cluster.of(devices), {d.name: 1e6 for d in devices})


def linked(*pairs: tuple[str, str], computes: bool = False) -> FakeCost:
    """Four devices, the first of which asks, with some links."""
    devices = [Device("d0", computes=computes), *(Device(f"d{n}") for n in (1, 2, 3))]
    links = [Link(a, b, 1e9) for a, b in pairs]
    cluster = Cluster.of(devices, links=links)
    return FakeCost(make_chain(2), cluster, dict.fromkeys(cluster.names, 1e6))


@pytest.mark.parametrize("planner", ["cut", "collaborative"])
def test_a_search_without_time_blames_the_time(planner: str) -> None:
    """How long it was, how far it came, and that this is no proof; with time there is a plan."""
    cost = tight(5000, 5000, 5000)
    options = PlanOptions(budget_s=-1.0)
    words = r"No plan found in the time there was, .*: the nearest .* 5 kB .*--budget"
    with pytest.raises(UnfinishedError, match=words) as caught:
        find_plan(cost, planner=planner, options=options)
    assert not caught.value.is_proven
    assert "Add devices" not in caught.value.message
    assert find_plan(cost, planner=planner).plan.stages


@pytest.mark.parametrize("objective", ["latency", "throughput", "memory"])
@pytest.mark.parametrize("budget_s", [-1.0, 0.0, TICK_S])
def test_what_fills_devices_is_found_whatever_the_time(
    objective: Objective, budget_s: float
) -> None:
    """``best`` has a plan where one pass over the layers makes one, however late it is."""
    options = PlanOptions(objective, in_flight=4, budget_s=budget_s)
    assert find_plan(tight(5000, 5000, 5000), options=options).plan.stages


def test_what_a_budget_was_is_said(ticking: list[Budget]) -> None:
    """However little it was."""
    cost = tight(5000, 5000, 5000)
    with pytest.raises(UnfinishedError, match="in the time there was, 2 ms, with "):
        find_plan(cost, planner="cut", options=PlanOptions(budget_s=0.002))


def test_a_proof_is_told_however_little_time_there_was() -> None:
    """And a planner that has tried all it may has not run out of time."""
    options = PlanOptions(budget_s=-1.0)
    with pytest.raises(InfeasibleError, match="No plan is possible: the weights") as caught:
        find_plan(tight(900, 900, 900), options=options)
    assert caught.value.is_proven
    with pytest.raises(OverfullError, match="fits in memory") as told:
        find_plan(tight(2600, 2600, 2600), planner="single")
    assert not told.value.is_proven


def test_a_proof_comes_before_any_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a sum: the planner is not asked, however much time there is."""

    def choose(evaluator: Evaluator) -> Chosen:
        raise AssertionError("searched")

    for name in ("best", "cut", "exhaustive"):
        idle = replace(get_planner(name), choose=choose)
        monkeypatch.setattr(find_module, "get_planner", lambda _, idle=idle: idle)
        for cost in (tight(900, 900, 900), tight(*[500] * 20), linked()):
            with pytest.raises(InfeasibleError, match="No plan is possible: ") as caught:
                find_plan(cost, planner=name)
            assert caught.value.is_proven
        with pytest.raises(AssertionError, match="searched"):
            find_plan(tight(2600, 2600, 2600), planner=name)


def test_weights_prove_nothing_of_planners_that_make_them_fewer() -> None:
    """Where there are samples, as without them such a planner leaves the network as it is."""
    planner, cost = get_planner("autosplit"), tight(900, 900, 900)
    samples = QuantisationData(ErrorTable({}, {}), {})
    check_possible(Evaluator(cost, PlanOptions(quantisation=samples)), planner)
    with pytest.raises(InfeasibleError, match="No plan is possible: the weights"):
        check_possible(Evaluator(cost, PlanOptions()), planner)


@pytest.mark.parametrize("planner", ["single", "equal_rows", "branches", "aofl", "offload"])
def test_who_finds_nothing_names_who_may(planner: str) -> None:
    """More devices are no help to a planner that does not use them: another finds a plan."""
    cost = tight(3200, 2600, 2600)
    with pytest.raises(OverfullError, match=r"or ask another planner, such as 'best'\.$"):
        find_plan(cost, planner=planner)
    assert find_plan(cost).plan.stages


def test_the_whole_network_is_not_told_as_a_part() -> None:
    """What one device would need for all is not what it would need for its part."""
    words = r"the nearest is the whole network on device 'd.', which has 2.6 kB and would need"
    with pytest.raises(OverfullError, match=words):
        find_plan(tight(2600, 2600, 2600), planner="single")


@pytest.mark.parametrize("planner", ["best", "cut", "collaborative", "single", "aofl"])
def test_links_that_are_missing_are_the_reason(planner: str) -> None:
    """Not memory, nor what the first plan that was tried lacks."""
    with pytest.raises(InfeasibleError, match=r"requester 'd0' may not compute.*\[\[link\]\]") as e:
        find_plan(linked(), planner=planner)
    assert e.value.is_proven


def test_devices_count_that_messages_get_to_and_back() -> None:
    """By way of others, too, but of none that may not compute."""
    assert reached_devices(Evaluator(linked(*LINKS), PlanOptions())) == ("d1", "d2")
    assert reached_devices(Evaluator(linked(computes=True), PlanOptions())) == ("d0",)
    some = Evaluator(linked(*LINKS), PlanOptions(devices=("d2", "d3")))
    assert reached_devices(some) == ()


def test_memory_beyond_all_links_is_no_memory() -> None:
    """The proof counts what can take part, and says that the rest cannot."""
    devices = [Device("d0", memory_bytes=900), Device("d1", memory_bytes=10**6)]
    rates = {"d0": 1e6, "d1": 1e6}
    cost = FakeCost(make_dense(2), Cluster.of(devices, links=[]), rates)
    words = "device 'd0' has 900 B of memory, and no links to and from the other 1: "
    with pytest.raises(InfeasibleError, match=words):
        find_plan(cost)


@pytest.mark.parametrize("objective", ["latency", "throughput", "memory"])
@pytest.mark.parametrize("budget_s", [0.05, 0.3, 1.0, 3.0])
def test_little_memory_takes_no_longer(
    ticking: list[Budget], objective: str, budget_s: float
) -> None:
    """Whether a plan is found or not, what comes after the end is short; in a second one is."""
    options = PlanOptions(objective=objective, in_flight=4, budget_s=budget_s)  # type: ignore[arg-type]
    with suppress(UnfinishedError) if budget_s < 1 else nullcontext():
        find_plan(tight(2600, 2600, 2600), options=options)
    assert ticking[0].spent_s <= budget_s + 0.3 + TICK_S


def test_groups_are_asked_before_cuts_where_time_ends(ticking: list[Budget]) -> None:
    """Little more time than even groups take is enough for ``best`` to be as good under load."""
    devices = [Device(f"d{k}", kind="raspberry-pi-3", memory_bytes=7_000_000) for k in range(4)]
    cost = CostModel(make_wide(*[128] * 9, size=8), Cluster.of(devices, bandwidth_bytes_per_s=1e8))
    options = PlanOptions("throughput", in_flight=6, budget_s=100.0)
    groups_s = find_plan(cost, planner="collaborative", options=options).estimate.period_s
    short = replace(options, budget_s=1.5 * ticking[0].spent_s)
    assert find_plan(cost, options=short).estimate.period_s <= groups_s
    assert find_plan(cost, planner="cut", options=short).estimate.period_s > 1.2 * groups_s


@pytest.mark.parametrize("planner", ["best", "cut", "collaborative"])
def test_who_was_cut_short_says_so(ticking: list[Budget], planner: str) -> None:
    """Whatever the method: what the time left out may be better."""
    devices = [Device(f"d{k}", kind="raspberry-pi-3") for k in range(4)]
    cost = CostModel(make_wide(*[64] * 9, size=16), Cluster.of(devices, bandwidth_bytes_per_s=1e7))
    options = PlanOptions("throughput", in_flight=6, budget_s=4 * TICK_S)
    assert find_plan(cost, planner=planner, options=options).status == "cut short"
    assert find_plan(cost, planner=planner, options=replace(options, budget_s=None)).status in (
        ("heuristic", "optimal")
    )
