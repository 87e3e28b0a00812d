"""What ``best`` does with a budget: it uses it, keeps to it, and says what the last half gained."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import pytest
from benchmarks.budget import search

from partita.cluster import Cluster, Device
from partita.plan import Plan, dump_plan
from partita.planners import Objective, PlanOptions, Result, find_plan
from partita.planners.bounds.least_period import fluid_period_s
from partita.planners.bounds.lower_bound import lower_bound_s
from partita.planners.pricing import evaluator as evaluator_module
from partita.planners.pricing.budget import Budget
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.search.further_search import FurtherSearch
from partita.planners.search.local_search import LocalSearch
from partita.planners.search.moves import Moves
from partita.planners.search.rate_search import search_rates
from partita.planners.simple.rows import device_speeds
from partita.planners.simple.single import single_drafts
from partita.zoo import build_model
from tests.planners.fakes import FakeCost, conv, make_chain, make_cost, make_graph

#: A look at the clock takes so long: time goes on with the work, the same on every machine.
TICK_S = 1e-2
VALUES: dict[Objective, Callable[[Result], float]] = {
    "latency": lambda result: result.latency_s,
    "throughput": lambda result: _period_s(result.plan),
    "memory": lambda result: max(result.estimate.memory_bytes.values()),
}


@pytest.fixture(autouse=True)
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let budgets be spent by looking at the clock."""

    def make(options: PlanOptions) -> Budget:
        return Budget(options, partial(next, itertools.count(0.0, TICK_S)))

    monkeypatch.setattr(evaluator_module, "Budget", make)


def _cost(seed: int = 1) -> FakeCost:
    rates = (1e7, 2e7, 1.5e7)
    return make_cost(make_chain(6, seed=seed), *rates, bandwidth=3e7, overhead_s=1e-5)


def _period_s(plan: Plan) -> float:
    """What a plan takes under load, simulated until it is steady, however little time was left."""
    options = PlanOptions(objective="throughput", in_flight=3)
    return Evaluator(_cost(), options).evaluate(plan).period_s


def _find(objective: Objective, budget_s: float | None, seed: int = 0) -> Result:
    in_flight = 3 if objective == "throughput" else 1
    options = PlanOptions(
        objective=objective, budget_s=budget_s, most_s=inf, in_flight=in_flight, seed=seed
    )
    return find_plan(_cost(), options=options)


@pytest.mark.parametrize("objective", VALUES)
def test_more_time_is_used_and_never_gives_a_worse_plan(objective: Objective) -> None:
    """What a larger budget finds is no worse; it prices more plans, beyond the usual search."""
    usual = _find(objective, None)
    most_s = {"latency": 200.0, "throughput": 12.0, "memory": 120.0}[objective]
    found = [_find(objective, budget_s) for budget_s in (0.5, most_s / 8, most_s)]
    values = [VALUES[objective](result) for result in found]
    assert values == sorted(values, reverse=True)
    assert values[-1] <= VALUES[objective](usual)
    assert found[-1].evaluations > usual.evaluations
    assert objective != "latency" or found[0].status == "cut short"


def test_kicks_lead_out_of_local_optima() -> None:
    """From the best single device, where climbing alone ends at a worse plan."""
    evaluator = Evaluator(_cost(), PlanOptions(budget_s=150.0))
    start = min(single_drafts(evaluator), key=evaluator.score)
    speeds = device_speeds(evaluator)
    search = LocalSearch(evaluator, Moves(evaluator.outline, evaluator.devices, speeds))
    climbed = search.climb(start, 1000)
    found = FurtherSearch(evaluator, [start], 0.0).run()[0]
    assert evaluator.score(found) < evaluator.score(climbed) < evaluator.score(start)


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_equal_seeds_give_equal_plans(objective: Objective) -> None:
    """Kicks are drawn from the seed alone."""
    plans = [
        dump_plan(_find(objective, 40.0 if objective == "latency" else 2.0, seed=3).plan)
        for _ in range(2)
    ]
    assert plans[0] == plans[1]


def test_a_plan_at_its_bound_ends_the_search() -> None:
    """Nothing is tried once nothing can be gained, however much time is left."""
    cost = make_cost(make_chain(3), 1e7)
    assert find_plan(cost, options=PlanOptions(budget_s=1e6)).evaluations < 20


def _boards(count: int) -> FakeCost:
    """As many equal layers as boards, each of which has memory for one."""
    parts = [
        part for n in range(count) for part in conv(f"c{n}", f"t{n}", f"t{n + 1}", (8, 8, 3, 3))
    ]
    graph = make_graph(parts, {"t0": (1, 8, 8, 8)}, [f"t{count}"])
    boards = [Device(f"d{n}", memory_bytes=7000) for n in range(1, count + 1)]
    cluster = Cluster.of([Device("d0", computes=False), *boards], bandwidth_bytes_per_s=1e12)
    return FakeCost(graph, cluster, dict.fromkeys(cluster.names, 1e6))


def test_a_pipeline_at_its_bound_ends_the_search() -> None:
    """Boards that are all busy all the time: found before the search, which has nothing to do."""
    options = PlanOptions("throughput", in_flight=8, budget_s=1e6, most_s=inf)
    found = find_plan(_boards(5), options=options)
    assert found.least_period_s is not None
    assert 1 < found.estimate.period_s / found.least_period_s < 1.005
    assert found.note == "at the bound"
    assert found.evaluations < 100


@pytest.mark.parametrize("objective", VALUES)
def test_a_search_that_finds_nothing_new_ends(objective: Objective) -> None:
    """However much time is left: of two layers on two devices there are few plans."""
    cost = make_cost(make_chain(2, height=4), 1e7, 2e7, bandwidth=3e7)
    options = PlanOptions(objective=objective, budget_s=1e6, most_s=inf, in_flight=2)
    assert find_plan(cost, options=options).evaluations < 5000


@pytest.mark.parametrize("objective", VALUES)
@pytest.mark.parametrize("budget_s", [0.0, 0.1, 1.0, 4.0])
def test_hardly_anything_is_priced_after_the_end(
    monkeypatch: pytest.MonkeyPatch, objective: Objective, budget_s: float
) -> None:
    """The clock is looked at everywhere: what is late is only what an answer needs."""
    late: list[object] = []

    def price(self: Evaluator, draft: object, limit_s: float) -> object:
        late.extend([draft] if self.budget.left_s < 0 else [])
        return real(self, draft, limit_s)  # type: ignore[arg-type]

    real = Evaluator._price
    monkeypatch.setattr(Evaluator, "_price", price)
    _find(objective, budget_s)
    assert len(late) <= len(_cost().cluster.names) + 2


def test_the_plan_is_priced_in_full_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A price in full of a divided plan that takes one second of three leaves two to the search."""
    budgets: set[Budget] = set()

    def evaluate(self: Evaluator, plan: Plan, *, full: bool = True, **how: Any) -> object:
        budgets.add(self.budget)
        for _ in range(int(1 / TICK_S) if full and len(plan.stages) > 1 else 0):
            _ = self.budget.spent_s
        return real(self, plan, full=full, **how)

    real = Evaluator.evaluate
    monkeypatch.setattr(Evaluator, "evaluate", evaluate)
    assert len(_find("latency", 3.0).plan.stages) > 1
    (budget,) = budgets
    assert 2.5 < budget.spent_s < 3.2


def test_a_long_simulation_under_load_ends_with_the_time() -> None:
    """What it would say is then unknown; the first that is judged is simulated to its end."""
    evaluator = Evaluator(_cost(), PlanOptions("throughput", budget_s=0.5, in_flight=3))
    first, *others = single_drafts(evaluator)
    while not evaluator.budget.is_over:
        pass
    assert evaluator.judge(first)[0] < inf
    assert [evaluator.judge(draft)[0] for draft in others] == [inf] * len(others)
    assert evaluator.best([*others, first]) == first


def test_bounds_without_time_are_lower_and_sound() -> None:
    """A bound that is late leaves layers out, from the shortest on, and solves no program."""
    full = Evaluator(_cost(), PlanOptions(most_s=inf))
    bounds = []
    for budget_s in (-0.1, -0.07, -0.04, 0.0):
        hurried = Evaluator(_cost(), PlanOptions(budget_s=budget_s))
        bounds.append(lower_bound_s(hurried))
        assert fluid_period_s(hurried) <= fluid_period_s(full)
    assert bounds[0] == 0.0
    assert all(bound <= lower_bound_s(full) for bound in bounds)
    assert bounds[-1] > 0.3 * lower_bound_s(full)


def test_what_is_forgotten_is_priced_again_alike() -> None:
    """Forgetting frees memory and changes no price."""
    evaluator = Evaluator(_cost(), PlanOptions(most_s=inf))
    drafts = single_drafts(evaluator)
    before = [evaluator.score(draft) for draft in drafts]
    evaluator.forget()
    assert not list(evaluator.priced(inf))
    assert [evaluator.score(draft) for draft in drafts] == before


def test_the_last_half_is_said_to_gain_what_it_gained() -> None:
    """Of the value known at half time, whoever found it."""
    times = iter([0.0, 1.0, 4.0, 6.0, 10.0])
    budget = Budget(PlanOptions(), lambda: next(times))
    for value in (8.0, 5.0, 6.0, 4.0):
        budget.note(value)
    assert budget.last_half_gain() == pytest.approx(1 - 4.0 / 5.0)
    assert Budget(PlanOptions()).last_half_gain() is None


def test_replicas_are_judged_before_the_bound_is_known() -> None:
    """For throughput even a search without time tries one plan under load."""
    options = PlanOptions("throughput", budget_s=0.0, in_flight=4)
    assert len(search_rates(Evaluator(_cost(), options))) == 1


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_the_benchmark_finds_no_worse_plan_in_more_time(objective: Objective) -> None:
    """Its short form, on a small network: values are above their bounds, and do not rise."""
    model = build_model("squeezenet", size=64)
    short, long = (search(model, 3, objective, budget_s, processor=True) for budget_s in (0.1, 0.3))
    assert long.bound_s * (1 - 1e-6) <= long.value_s <= short.value_s


def test_moves_are_mended_where_climbing_takes_none() -> None:
    """A move that is worse as it is, is better with its rows moved: budgets begin with those."""
    for seed in range(6):
        evaluator = Evaluator(_cost(seed), PlanOptions(budget_s=400.0))
        speeds = device_speeds(evaluator)
        moves = Moves(evaluator.outline, evaluator.devices, speeds)
        start = min(single_drafts(evaluator), key=evaluator.score)
        climbed = LocalSearch(evaluator, moves).climb(start, 3000)
        mended = FurtherSearch(evaluator, [climbed], 0.0)._mend_moves(climbed)
        if mended:
            assert evaluator.score(mended) < evaluator.score(climbed)
            return
    pytest.fail("no move was better after it was mended")
