"""Answers per second on emulated boards, predicted beside measured, while inputs never run out.

Fleets of the paper on collaborative execution, as ``partita reproduce collaborative --real`` has
them: AlexNet on 4 and 6 boards, VGG-16 on images of 112 x 112 on 8 and 11, planned by every planner
that neither trains nor tries everything. Boards hold 70 % of AlexNet, as there, and all of VGG-16,
as most planners leave all weights on every board. Then a pipeline of four stages beside what its
busiest lane allows, and ResNet-50 on images of 112 x 112 whole on 1 to 11 boards, in turns.

    python -m benchmarks.rates [--parts alexnet vgg16 pipeline replicas] [--json]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.harness import Row, at_most, make_parser, report, say
from partita.graph import load_graph
from partita.planners import find_plan, get_planner, planner_names
from partita.reproduce.collaborative.pipelines import BOARDS
from partita.reproduce.collaborative.real_runs import (
    COUNTED_S,
    ROOM,
    Served,
    open_fleet,
    profile_here,
    serve,
    small_graph,
)
from partita.reproduce.collaborative.replicas import COUNTS, LINEAR, replicate
from partita.reproduce.emulation import measure_rate
from partita.simulation import predict_period_s
from partita.zoo import build_model

MOST_MEDIAN, MOST_WORST = 0.03, 0.10
LEAST_OF_BOTTLENECK = 0.97
STAGES = 4
#: Whole groups of layers, one per board.
CHAIN = {"collaborative.replicas": "no", "collaborative.splits": "no", "collaborative.aim": "even"}
#: What a board holds over what the whole network takes: all, with requests in flight.
ROOMS = {"alexnet": ROOM, "vgg16": 1.5}
#: From profiles; and by simulation with computing steps as they were measured, which leaves out
#: what profiles and emulation disagree on.
PREDICTED, SIMULATED = "predicted", "steps as measured"
REPLICATED, PIXELS = "resnet50", 112


def methods() -> list[tuple[str, int]]:
    """The planners that decide within seconds."""
    slow = ("training", "exponential")
    return [(name, 0) for name in planner_names() if get_planner(name).cost not in slow]


def rate_rows(case: str, rates: dict[str, float], measured: float) -> Iterator[Row]:
    """Yield what was predicted, in each way, beside what was measured."""
    for how, rate in rates.items():
        say(f"{case}, {how}: {rate:.3f}/s, {rate / measured - 1:+.1%}")
        yield Row(f"{case}, {how}", "1/s", rate, measured, rate / measured, "", None)


def fleet_rows(model: str) -> Iterator[Row]:
    """Yield every planner's plan on the model's fleets."""
    graph = small_graph(model)
    profile = profile_here(graph)
    for boards in BOARDS[model]:
        for served in serve(
            graph, profile, boards, methods(), lambda what: None, room=ROOMS[model]
        ):
            yield from _served_rows(f"{model} on {boards}, {served.planner}", served)


def _served_rows(case: str, served: Served) -> Iterator[Row]:
    run = served.measured
    if run.difference > 1e-5:
        raise RuntimeError(f"{case}: answers differ by {run.difference:.1e} from the whole model's")
    rates = {PREDICTED: served.predicted, SIMULATED: served.simulated}
    yield from rate_rows(case, rates, run.per_second)


def pipeline_rows(model: str = "vgg16") -> Iterator[Row]:
    """Yield a pipeline's answers over what the busiest device, link or port allows."""
    graph = small_graph(model)
    with open_fleet(graph, profile_here(graph), STAGES, room=1.5) as (endpoint, cost, options):
        asked = replace(options, in_flight=2 * STAGES, method=CHAIN)
        plan = find_plan(cost, planner="collaborative", options=asked).plan
        lanes = cost.lanes_s(cost.layout(plan))
        rate = measure_rate(endpoint, cost, plan, least_s=2 * COUNTED_S)
    as_run = lanes | dict.fromkeys(cost.cluster.names, 0.0)
    for step in rate.steps:
        as_run[step.device] += step.p50_s
    for how, busy in ((PREDICTED, lanes), (SIMULATED, as_run)):
        longest = max(busy, key=busy.__getitem__)
        part = rate.per_second * busy[longest]
        case = f"{model}, {len(plan.stages)} stages, of 1/bottleneck ({longest}), {how}"
        met = part >= LEAST_OF_BOTTLENECK and len(plan.stages) == STAGES
        target = f">= {LEAST_OF_BOTTLENECK:.0%}"
        yield Row(case, "1/s", rate.per_second, 1 / busy[longest], part, target, met)


def replica_rows() -> Iterator[Row]:
    """Yield whole networks in turns: predicted beside measured, and beside linear."""
    graph = load_graph(build_model(REPLICATED, size=PIXELS), name=REPLICATED)
    with open_fleet(graph, profile_here(graph), max(COUNTS), room=1.5) as (endpoint, cost, options):
        workers, alone = options.devices or (), 0.0
        for count in (1, *COUNTS):
            plan = replicate(graph, cost.cluster, workers[:count])
            rate = measure_rate(endpoint, cost, plan, least_s=COUNTED_S).per_second
            rates = {PREDICTED: 1 / predict_period_s(cost, plan)}
            yield from rate_rows(f"{REPLICATED} in turns on {count}", rates, rate)
            alone = alone or rate
            if count > 1:
                lanes = cost.lanes_s(cost.layout(plan))
                longest = max(lanes, key=lanes.__getitem__)
                part = rate / (count * alone)
                allowed = min(count * alone, 1 / lanes[longest])
                case = f"{REPLICATED} in turns on {count}, of linear ({longest} is busy longest)"
                target = f">= {LINEAR:.0%} of linear or of what that allows"
                yield Row(case, "1/s", rate, count * alone, part, target, rate >= LINEAR * allowed)


def judge(rows: Sequence[Row]) -> list[Row]:
    """The rows, and the median and worst error of each way to predict."""
    judged = list(rows)
    for how in (PREDICTED, SIMULATED):
        errors = [
            abs(row.ratio - 1)
            for row in rows
            if row.met is None and row.ratio and row.case.endswith(how)
        ]
        if errors:
            of = f"error of {len(errors)} rates, {how}"
            median = 100 * statistics.median(errors)
            judged.append(at_most(f"median {of}", "%", median, 100 * MOST_MEDIAN))
            judged.append(at_most(f"worst {of}", "%", 100 * max(errors), 100 * MOST_WORST))
    return judged


PARTS = {
    "alexnet": lambda: fleet_rows("alexnet"),
    "vgg16": lambda: fleet_rows("vgg16"),
    "pipeline": pipeline_rows,
    "replicas": replica_rows,
}


def main() -> int:
    """Run, and compare with the targets."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    args = parser.parse_args()
    rows = [row for part in args.parts for row in PARTS[part]()]
    return report(judge(rows), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
