"""How far ``best`` is from the optimum, on small networks where every plan can be tried.

python -m benchmarks.optimality [--cases 200] [--json]
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.planners.fakes import FakeCost, draw_cost, make_chain, make_residual

from benchmarks.harness import Row, make_parser, report, say
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.search import best
from partita.planners.search.exhaustive import Space

#: Larger instances are left out: the oracle takes minutes for each.
MOST_PLANS = 80_000
#: Smaller instances are left out: there ``best`` itself tries every plan.
LEAST_PLANS = best.SMALL_SPACE + 1
#: The worst miss, and the part of instances where the optimum is found.
MOST_MISS, LEAST_EQUAL = 0.01, 0.90
#: Latencies closer than this are equal.
EQUAL = 1e-9
OPTIONS = PlanOptions(most_s=1e6)
#: The axes of the oracle: what it does not try must not make up for what ``best`` misses.
SAME_AXES = PlanOptions(most_s=1e6, axes=("rows", "output_channels", "input_channels"))


@dataclass(frozen=True)
class Outcome:
    """One instance.

    Attributes:
        plans: How many there are.
        miss: Part by which the plan of ``best`` is slower than the oracle's; below 0 where it has
            devices in another order, or channels divided finer than in quarters.
    """

    plans: int
    miss: float


def draw_cases(count: int, first_seed: int = 0) -> Iterator[tuple[FakeCost, int]]:
    """Yield instances and their numbers of plans; seeds that are too small or large are skipped."""
    for seed in itertools.count(first_seed):
        rng = random.Random(seed)
        devices = rng.choice((2, 3, 3))
        graph = make_residual(seed) if seed % 4 == 3 else make_chain(rng.choice((2, 3)), seed=seed)
        latencies = (0.0, 1e-5, 1e-4)
        cost = draw_cost(rng, graph, devices, magnitudes=(6, 8.5), latencies=latencies)
        plans = Space(Evaluator(cost, PlanOptions())).count(MOST_PLANS)
        if LEAST_PLANS <= plans <= MOST_PLANS:
            yield cost, plans
            count -= 1
        if count == 0:
            return


def judge(cost: FakeCost, plans: int) -> Outcome:
    """Return how ``best`` does on one instance, as on a large one: without trying every plan."""
    optimum = find_plan(cost, planner="exhaustive", options=OPTIONS)
    kept, best.SMALL_SPACE = best.SMALL_SPACE, 0
    try:
        found = find_plan(cost, options=SAME_AXES)
    finally:
        best.SMALL_SPACE = kept
    return Outcome(plans, found.latency_s / optimum.latency_s - 1)


def rows_of(outcomes: list[Outcome]) -> list[Row]:
    """Return the table: the worst miss and how often the optimum is found."""
    worst = max(outcome.miss for outcome in outcomes)
    found = sum(outcome.miss <= EQUAL for outcome in outcomes) / len(outcomes)
    better = sum(outcome.miss < -EQUAL for outcome in outcomes) / len(outcomes)
    return [
        Row(
            f"best above the optimum, worst of {len(outcomes)}", "%", worst * 100, None, None,
            f"<= {MOST_MISS:.0%}", worst <= MOST_MISS,
        ),
        Row(
            f"best finds it or better, {len(outcomes)} instances", "%", found * 100, None, None,
            f">= {LEAST_EQUAL:.0%}", found >= LEAST_EQUAL,
        ),
        Row("of which better than the oracle tries", "%", better * 100, None, None, "", None),
    ]  # fmt: skip


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--cases", type=int, default=200)
    args = parser.parse_args()
    outcomes = []
    for cost, plans in draw_cases(args.cases):
        began_s = time.process_time()
        outcomes.append(judge(cost, plans))
        took_s = time.process_time() - began_s
        say(f"{len(outcomes)}: {plans} plans, miss {outcomes[-1].miss:.3%}, {took_s:.1f} s")
    return report(rows_of(outcomes), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
