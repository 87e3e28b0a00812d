"""Requests per second of ``best`` against a bound that no plan surpasses, simulated under load.

Devices are a device of the catalogue with slow-downs 4, 8, 12 and 16 in turn, as in
``benchmarks.bounds``; links have 2 ms. Beside the bound stands what replicas of the whole network
on the k fastest devices give, shares by speed, for the best k. Then every planner's predicted rate
against the simulated one; and on drawn networks of up to five layers on up to three devices, `best`
against every cut into ranges, with devices used again.

    python -m benchmarks.throughput [--models vgg16] [--devices 4 8 12] [--mbit 200 2000] [--json]
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from itertools import combinations, pairwise, product
from math import inf, lcm

from tests.planners.fakes import FakeCost, make_chain, make_cost

from benchmarks.bounds import MEMORY_BYTES, SLOW_DOWNS, catalogue_profile
from benchmarks.harness import Row, find_model, make_parser, report, say
from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.graph import load_graph
from partita.plan import Plan
from partita.planners import (
    Draft,
    DraftStage,
    Evaluator,
    PlanOptions,
    find_plan,
    get_planner,
    planner_names,
)
from partita.planners.search.pipelines import replica_drafts
from partita.profile import Profile
from partita.simulation import answer_period_s, simulate
from partita.units import UNITS

MODELS = ("vgg16", "mobilenet_v2", "resnet50")
#: Least part of the bound, by number of devices.
TARGETS = {4: 0.95, 8: 0.92, 12: 0.90}
#: Requests in flight in all, and per device.
IN_FLIGHT, PER_DEVICE = 8, 4
#: Most by which a predicted rate may differ from a simulated one.
TOLERANCE = 0.02
#: What two ways to find one steady run may differ by while drafts are compared.
CLOSE = 0.005
#: Rounds of requests in flight that a simulation passes over, and counts.
PASSED, COUNTED = 10, 30


def unequal_cluster(count: int, mbit: float) -> Cluster:
    """Return ``count`` devices with slow-downs in turn, each linked with each."""
    return Cluster.of(
        [
            Device(f"d{n}", slow_down=SLOW_DOWNS[n % len(SLOW_DOWNS)], memory_bytes=MEMORY_BYTES)
            for n in range(count)
        ],
        bandwidth_bytes_per_s=mbit * UNITS["bandwidth"]["Mbit/s"],
        latency_s=2e-3,
    )


def simulated_period_s(cost: CostModel, plan: Plan) -> float:
    """Return seconds per request from two runs, so that neither beginning nor end counts."""
    layout = cost.layout(plan)
    durations = cost.price(layout)
    turn = lcm(*(sum(shares) for shares in layout.program.shares if shares))
    counted = -(-COUNTED * plan.in_flight // turn) * turn
    first = PASSED * plan.in_flight
    short, long = (
        simulate(layout.program, durations, requests=requests, keep_spans=False).makespan_s
        for requests in (first, first + counted)
    )
    return (long - short) / counted


def best_replicas_s(cost: CostModel, options: PlanOptions) -> float:
    """Return the least period of replicas of the whole network on the k fastest devices."""
    evaluator = Evaluator(cost, options)
    plans = [evaluator.problem.plan(draft) for draft in replica_drafts(evaluator)]
    return min(simulated_period_s(cost, plan) for plan in plans)


def case_rows(cost: CostModel, options: PlanOptions, case: str) -> Iterator[Row]:
    """Yield ``best`` against the bound and against replicas."""
    result = find_plan(cost, options=options)
    period_s, bound_s = simulated_period_s(cost, result.plan), result.least_period_s or 0.0
    share, least = bound_s / period_s, TARGETS.get(len(cost.cluster.devices))
    say(f"{case}: {share:.1%} of the bound in {result.search_s:.1f} s")
    yield Row(
        f"{case}, bound", "1/s", 1 / period_s, 1 / bound_s, share,
        f">= {least:.0%}" if least else "", None if least is None else share >= least,
    )  # fmt: skip
    replicas_s = best_replicas_s(cost, options)
    gain = replicas_s / period_s
    yield Row(
        f"{case}, replicas", "1/s", 1 / period_s, 1 / replicas_s, gain, ">= 1", gain >= 1 - 1e-3
    )


def planner_rows(cost: CostModel, options: PlanOptions, case: str) -> Iterator[Row]:
    """Yield for each planner the predicted rate against the simulated one."""
    for name in planner_names():
        if get_planner(name).cost in ("training", "exponential"):
            continue
        result = find_plan(cost, planner=name, options=options)
        period_s = simulated_period_s(cost, result.plan)
        ratio = period_s / result.estimate.period_s
        yield Row(
            f"{case}, {name}", "1/s", result.estimate.images_per_second, 1 / period_s, ratio,
            f"within {TOLERANCE:.0%}", abs(ratio - 1) <= TOLERANCE,
        )  # fmt: skip


def all_cuts(evaluator: Evaluator) -> list[Draft]:
    """Return every cut into ranges on every device, devices used again, tried without a bound."""
    total = len(evaluator.outline)
    return [
        tuple(
            DraftStage(start, stop, "none", (device,))
            for (start, stop), device in zip(pairwise((0, *inner, total)), places, strict=True)
        )
        for count in range(total)
        for inner in combinations(range(1, total), count)
        for places in product(evaluator.devices, repeat=count + 1)
    ]


def draw_case(seed: int, most_layers: int) -> tuple[FakeCost, PlanOptions]:
    """Return a chain of convolutions on two or three devices, and requests in flight."""
    rng = random.Random(seed)
    cost = make_cost(
        make_chain(rng.randint(2, most_layers), seed=seed),
        *(rng.uniform(0.5, 4) * 1e7 for _ in range(rng.randint(2, 3))),
        bandwidth=10 ** rng.uniform(5.5, 8),
        latency=rng.choice((0.0, 1e-4)),
    )
    return cost, PlanOptions("throughput", in_flight=rng.randint(2, 6), max_evaluations=400)


def brute_force_row(count: int) -> Row:
    """Return how many of ``count`` drawn networks some cut answers more often than ``best``."""
    below = 0
    for seed in range(count):
        cost, options = draw_case(seed, 5)
        evaluator = Evaluator(cost, options)
        cuts_s = inf
        for draft in all_cuts(evaluator):
            layout = evaluator.problem.layout(evaluator.problem.plan(draft))
            cuts_s = min(cuts_s, answer_period_s(layout.program, cost.price(layout)))
        best_s = find_plan(cost, options=options).estimate.period_s
        below += best_s > cuts_s * (1 + CLOSE)
    return Row(
        f"best below a cut, of {count} networks", "cases", below, None, None, "0", below == 0
    )


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--device", default="laptop", help="kind of the catalogue")
    parser.add_argument("--devices", nargs="+", type=int, default=list(TARGETS))
    parser.add_argument("--mbit", nargs="+", type=float, default=[200.0, 2000.0])
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each search")
    parser.add_argument("--drawn", type=int, default=30, help="drawn networks")
    args = parser.parse_args()
    rows: list[Row] = []
    for model in args.models:
        graph = load_graph(find_model(model), name=model)
        profile: Profile = catalogue_profile(graph, args.device)
        for count in args.devices:
            for mbit in args.mbit:
                cost = CostModel(graph, unequal_cluster(count, mbit), profiles=profile)
                for in_flight in (IN_FLIGHT, PER_DEVICE * count):
                    options = PlanOptions("throughput", most_s=args.budget, in_flight=in_flight)
                    case = f"{model}, {count} devices, {mbit:g} Mbit/s, {in_flight} in flight"
                    rows += case_rows(cost, options, case)
        cost = CostModel(graph, unequal_cluster(4, 200.0), profiles=profile)
        options = PlanOptions("throughput", most_s=args.budget, in_flight=IN_FLIGHT)
        rows += planner_rows(cost, options, f"{model}, predicted against simulated")
    rows.append(brute_force_row(args.drawn))
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
