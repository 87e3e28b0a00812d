"""Laws that every planner keeps, whatever the network and the devices."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from itertools import product

import pytest

from partita.compile import build_layout
from partita.compile.check import check_plan
from partita.errors import InfeasibleError
from partita.graph import Graph
from partita.plan import dump_plan
from partita.planners import Evaluator, PlanOptions, Result, find_plan, get_planner, planner_names
from partita.planners.drafts.draft import DraftStage
from partita.planners.search import best
from partita.simulation import simulate
from tests.planners.fakes import (
    FakeCost,
    make_chain,
    make_cost,
    make_gated,
    make_residual,
)

#: Enough evaluations for small networks; time never ends these searches.
OPTIONS = PlanOptions(most_s=1000.0, max_evaluations=150)
#: Those that train take longer, and keep the rules in tests of their own.
QUICK = [name for name in planner_names() if get_planner(name).cost != "training"]


def _draw(seed: int, kinds: str = "ccr") -> FakeCost:
    rng = random.Random(seed)
    make: dict[str, Callable[[], Graph]] = {
        "c": lambda: make_chain(rng.choice((2, 3)), seed=seed),
        "r": lambda: make_residual(seed),
        "g": make_gated,
    }
    graph = make[rng.choice(kinds)]()
    rates = [rng.uniform(0.5, 4) * 1e7 for _ in range(2)]
    return make_cost(
        graph,
        *rates,
        bandwidth=10 ** rng.uniform(6.5, 8.5),
        latency=rng.choice((0.0, 1e-5, 1e-4)),
        overhead_s=rng.choice((0.0, 1e-5)),
        tile_rows=rng.choice((1, 2)),
    )


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("seed", range(4))
def test_every_planner_keeps_the_rules(name: str, seed: int) -> None:
    """Plans are sound, repeatable, priced as the simulation runs them, and beat no bound."""
    cost = _draw(100 + seed, "crg")
    try:
        result = find_plan(cost, planner=name, options=OPTIONS)
    except InfeasibleError:
        assert name == "exhaustive"
        return
    check_plan(cost.graph, result.plan, cost.cluster)
    again = find_plan(cost, planner=name, options=OPTIONS)
    assert dump_plan(again.plan) == dump_plan(result.plan)
    layout = build_layout(cost.graph, result.plan, cost.cluster)
    report = simulate(layout.program, cost.price(layout))
    assert result.latency_s == pytest.approx(report.latencies_s[0], rel=1e-9)
    assert result.lower_bound_s <= result.latency_s
    assert result.plan.planner == name


@pytest.mark.parametrize("seed", range(4))
def test_best_is_no_worse_than_any_other(seed: int) -> None:
    """The planner to use is as good as each of the others."""
    cost = _draw(200 + seed, "crg")
    chosen = find_plan(cost, options=OPTIONS)
    for name in QUICK:
        try:
            other = find_plan(cost, planner=name, options=OPTIONS)
        except InfeasibleError:
            continue
        assert chosen.latency_s <= other.latency_s * (1 + 1e-9)


def _oracle(seed: int) -> tuple[FakeCost, Result]:
    cost = _draw(seed, "c")
    return cost, find_plan(cost, planner="exhaustive", options=OPTIONS)


@pytest.mark.slow
def test_bound_and_search_against_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """On small networks no optimum is below its bound, gaps are small, and search finds optima."""
    monkeypatch.setattr(best, "SMALL_SPACE", 0)
    gaps, misses = [], []
    options = PlanOptions(most_s=1000.0, max_evaluations=400)
    for seed in range(36):
        cost, oracle = _oracle(seed)
        assert oracle.lower_bound_s <= oracle.latency_s
        gaps.append(oracle.latency_s / oracle.lower_bound_s - 1)
        misses.append(find_plan(cost, options=options).latency_s / oracle.latency_s - 1)
    median = statistics.median(gaps)
    print(f"bound: median gap {median:.1%}, largest {max(gaps):.1%}")
    print(f"best: largest miss {max(misses):.2%}, equal {sum(m < 1e-6 for m in misses)} of 36")
    assert median <= 0.30
    assert statistics.median(misses) <= 1e-6
    assert sum(miss < 1e-6 for miss in misses) >= 30
    assert max(misses) <= 0.15


@pytest.mark.parametrize("seed", range(6))
def test_cut_is_the_best_of_all_cuts(seed: int) -> None:
    """Dynamic programming over a chain finds what trying every cut on every device finds."""
    rng = random.Random(seed)
    graph = make_chain(4, seed=seed)
    rates = [rng.uniform(0.5, 8) * 1e7 for _ in range(3)]
    cost = make_cost(graph, *rates, bandwidth=10 ** rng.uniform(6, 8), latency=1e-5)
    result = find_plan(cost, planner="cut")
    evaluator = Evaluator(cost, PlanOptions())
    count = len(evaluator.outline)
    least = min(
        evaluator.latency_of(
            tuple(DraftStage(p, p + 1, "none", (device,)) for p, device in enumerate(devices))
        )
        for devices in product(cost.cluster.names, repeat=count)
    )
    assert result.latency_s <= least * (1 + 1e-9)
