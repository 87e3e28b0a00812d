"""DistrEdge's clusters on the emulated lab: what each method promised beside what it did.

This machine stands in for the paper's boards. Each device is slowed to the ratio that the
catalogue gives it to the others, so far that this machine's cores can play all of them, and the
network is slowed by the same factor, so that computing and sending keep their proportion. VGG-16
at 224 x 224, single precision, one request after the other; profiles measured in the same run.

    python -m benchmarks.emulated [--clusters DB-50 NA-nano] [--episodes 300] [--json]
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict

from scipy.stats import kendalltau

from benchmarks.harness import Row, draw_inputs, find_model, make_parser, report, say
from benchmarks.prediction import MOST_MEDIAN, Trial, run_plan, trial_row
from partita.cost import CostModel
from partita.errors import PlanError
from partita.graph import Graph, load_graph
from partita.lab import start_lab
from partita.leader import refine_cost
from partita.planners import PlanOptions, find_plan, get_planner, planner_names
from partita.profile import MeasureOptions, measure_profile
from partita.reproduce.bench import find_cluster
from partita.reproduce.emulation import emulate
from partita.simulation import predict

MODEL = "vgg16"
CLUSTERS = ("DB-50", "NA-nano")
#: Devices are slowed until all of them at work together need so many of this machine's cores.
MOST_CORES = 1.2
LEAST_TAU = 0.8


def methods() -> list[str]:
    """Return all planners but those for small networks."""
    return [name for name in planner_names() if get_planner(name).cost != "exponential"]


def measure(scenario: str, graph: Graph, args: argparse.Namespace) -> list[Trial]:
    """Return every method's trial on one cluster."""
    profile = measure_profile(graph, MeasureOptions(repeats=9, budget_s=0.3))
    known = find_cluster(scenario)
    cluster, scale = emulate(known, graph, profile, cores=MOST_CORES, precision="float16")
    slow_downs = ", ".join(f"{device.slow_down:.1f}" for device in cluster.devices)
    say(f"{scenario}: {scale:.1f} times slower than the boards; slow-downs {slow_downs}")
    inputs = draw_inputs(graph)
    trials = []
    with start_lab(cluster) as lab:
        cost = CostModel(graph, cluster, profiles=profile)
        program = cost.layout(find_plan(cost, planner="single").plan).program
        cost = refine_cost(lab.endpoint, cost, program)
        for name in methods():
            try:
                plan = find_plan(cost, planner=name, options=method_options(name, args)).plan
            except PlanError as error:
                say(f"{scenario} {name}: {error}")
                continue
            predicted_s = predict(cost, plan, requests=args.requests).quantile_s(0.5)
            measured_s = run_plan(lab.endpoint, cost, plan, inputs, args.requests)
            trial = Trial(scenario, name, len(plan.stages), predicted_s, measured_s)
            trials.append(trial)
            say(f"{scenario} {name}: {predicted_s:.3f} s predicted, {trial.error:+.1%}")
    return trials


def method_options(name: str, args: argparse.Namespace) -> PlanOptions:
    """Return a planner's options; those that train do so for a while only."""
    learns = get_planner(name).cost == "training"
    return PlanOptions(method={f"{name}.episodes": str(args.episodes)} if learns else {})


def judge(scenario: str, trials: Sequence[Trial]) -> list[Row]:
    """Return a row per method, the median error, and how far the order of methods agrees."""
    rows = [trial_row(trial) for trial in trials]
    error = statistics.median(abs(trial.error) for trial in trials)
    predicted, measured = zip(*((one.predicted_s, one.measured_s) for one in trials), strict=True)
    tau = float(kendalltau(predicted, measured).statistic)
    tau = 0.0 if math.isnan(tau) else tau
    for name, unit, value, target, met in (
        (
            "median error of prediction",
            "%",
            error * 100,
            f"<= {MOST_MEDIAN:.0%}",
            error <= MOST_MEDIAN,
        ),
        ("Kendall's tau of the order of methods", "", tau, f">= {LEAST_TAU}", tau >= LEAST_TAU),
    ):
        rows.append(Row(f"{scenario}, {name}", unit, value, None, None, target, met))
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--clusters", nargs="+", default=CLUSTERS)
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=300, help="of the methods that train")
    args = parser.parse_args()
    graph = load_graph(find_model(MODEL), name=MODEL)
    rows: list[Row] = []
    notes: dict[str, list[dict[str, object]]] = {"trials": []}
    for scenario in args.clusters:
        trials = measure(scenario, graph, args)
        rows += judge(scenario, trials)
        notes["trials"] += [asdict(trial) for trial in trials]
    return report(rows, as_json=args.json, notes=notes if args.json else {})


if __name__ == "__main__":
    sys.exit(main())
