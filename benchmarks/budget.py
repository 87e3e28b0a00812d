"""What more time gives: ten hard cases planned with a short and a long budget.

Large networks on 8 to 16 unequal devices (slow-downs 4, 8, 12 and 16 in turn of a laptop of the
catalogue, 200 Mbit/s, 2 ms), for latency and for throughput with 8 requests in flight. The gain
counts where the short search's plan is over 3 % above its bound. Some eleven minutes; nothing else
should run beside it, as budgets are seconds on the wall, unless ``--processor`` counts processor
time instead.

    python -m benchmarks.budget [--short 5] [--long 60] [--cases 10] [--processor] [--json]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from unittest import mock

import onnx

from benchmarks.bounds import catalogue_profile, unequal_cluster
from benchmarks.harness import Row, find_model, make_parser, report, say
from partita.cost import CostModel
from partita.graph import load_graph
from partita.planners import Objective, PlanOptions, find_plan
from partita.planners.pricing import evaluator
from partita.planners.pricing.budget import Budget

LEAST_GAIN, MOST_OVER_S = 0.03, 0.3
#: A plan this near its bound leaves too little to gain.
NEAR = 1.03
IN_FLIGHT = 8
#: The model, the number of devices and the objective.
CASES: tuple[tuple[str, int, Objective], ...] = (
    ("densenet201", 8, "latency"),
    ("inception_v3", 16, "latency"),
    ("resnet152", 12, "latency"),
    ("densenet201", 16, "throughput"),
    ("inception_v3", 8, "latency"),
    ("efficientnet_b0", 16, "throughput"),
    ("densenet201", 16, "latency"),
    ("inception_v3", 16, "throughput"),
    ("resnet152", 16, "throughput"),
    ("efficientnet_b0", 8, "latency"),
)


@dataclass(frozen=True)
class Found:
    """What one search found.

    Attributes:
        value_s: What is made small.
        bound_s: What no plan is below.
        over_s: What all of it took, less the budget.
    """

    value_s: float
    bound_s: float
    over_s: float


def search(
    model: onnx.ModelProto, count: int, objective: Objective, budget_s: float, *, processor: bool
) -> Found:
    """Return what is found from scratch: nothing is known of the graph from before."""
    graph = load_graph(model, name="model")
    cost = CostModel(graph, unequal_cluster(count), profiles=catalogue_profile(graph, "laptop"))
    options = PlanOptions(
        objective=objective,
        budget_s=budget_s,
        in_flight=IN_FLIGHT if objective == "throughput" else 1,
    )
    clock = time.process_time if processor else time.monotonic
    with mock.patch.object(evaluator, "Budget", partial(Budget, clock=clock)):
        began_s = clock()
        result = find_plan(cost, options=options)
        took_s = clock() - began_s
    is_rate = objective == "throughput"
    value_s = result.estimate.period_s if is_rate else result.latency_s
    bound_s = (result.least_period_s or 0.0) if is_rate else result.lower_bound_s
    return Found(value_s, bound_s, took_s - budget_s)


def rows(args: argparse.Namespace) -> list[Row]:
    """Return a row per case, then the mean gain, the worst, and the longest way over a budget."""
    found_rows, gains, worst, over_s = [], [], 0.0, 0.0
    for name, count, objective in CASES[: args.cases]:
        model = find_model(name)
        short, long = (
            search(model, count, objective, budget_s, processor=args.processor)
            for budget_s in (args.short, args.long)
        )
        gain = 1 - long.value_s / short.value_s
        counts = short.value_s > NEAR * short.bound_s
        gains += [gain] if counts else []
        worst, over_s = min(worst, gain), max(over_s, short.over_s, long.over_s)
        say(
            f"{name}, {count} devices, {objective}: {gain:.1%} gained, {short.over_s:+.2f} s and"
            f" {long.over_s:+.2f} s over, bound {long.bound_s * 1e3:.1f} ms"
        )
        title = f"{name} on {count}, {objective}, {args.long:g} s"
        ratio = long.value_s / short.value_s
        found_rows.append(
            Row(title, "ms", long.value_s * 1e3, short.value_s * 1e3, ratio, "", None)
        )
    mean = statistics.mean(gains) if gains else 0.0
    return [
        *found_rows,
        _row(
            "mean gain of those not near the bound",
            mean * 100,
            f">= {LEAST_GAIN:.0%}",
            mean >= LEAST_GAIN,
        ),
        _row("worst gain", worst * 100, ">= 0", worst >= 0),
        Row(
            "most over a budget",
            "s",
            over_s,
            None,
            None,
            f"<= {MOST_OVER_S:g} s",
            over_s <= MOST_OVER_S,
        ),
    ]


def _row(title: str, percent: float, target: str, met: bool) -> Row:
    return Row(title, "%", percent, None, None, target, met)


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--short", type=float, default=5.0, help="seconds")
    parser.add_argument("--long", type=float, default=60.0, help="seconds")
    parser.add_argument("--cases", type=int, default=len(CASES))
    parser.add_argument("--processor", action="store_true", help="count processor time")
    args = parser.parse_args()
    return report(rows(args), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
