"""Predicted against measured latency, over all planners of ``compare``, on the emulated lab.

Each model is profiled on this machine in the same run; then every planner's plan runs on the
demo's four devices (slow-downs 8, 12, 16 and 24, links of 200 Mbit/s and 2 ms), one request after
the other. What messages and requests cost beyond links and computing is measured on the same lab.
All plans run once per round, round after round, and the median over rounds counts: a shared
machine is slower for some seconds now and then, which no prediction can know.

    python -m benchmarks.prediction [--models NAME...] [--requests 5] [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.harness import Row, draw_inputs, find_model, make_parser, report, say
from partita.cli.actions.compare import choose_planners
from partita.cluster import Cluster
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.demo.cluster import load_demo_cluster
from partita.errors import PlanError
from partita.execution import Report
from partita.fabric import Endpoint
from partita.graph import Graph, load_graph
from partita.lab import start_lab
from partita.leader import DeployOptions, deploy, refine_cost
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.profile import MeasureOptions, measure_profile
from partita.simulation import predict

MODELS = ("plate-detector", "mobilenet_v2", "resnet50", "vgg16")
MOST_MEDIAN, MOST_WORST = 0.03, 0.12
MEMORY_BYTES = 2_000_000_000


@dataclass(frozen=True)
class Trial:
    """One plan: what was predicted, and the median of what was measured.

    Attributes:
        model: The network, or the cluster where only one network runs.
    """

    model: str
    planner: str
    stages: int
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1


def roomy_demo_cluster() -> Cluster:
    """Return the demo's cluster with memory for large networks."""
    cluster = load_demo_cluster()
    roomy = tuple(replace(device, memory_bytes=MEMORY_BYTES) for device in cluster.devices)
    return replace(cluster, devices=roomy)


def list_plans(cost: CostModel, planners: Sequence[str], budget_s: float) -> dict[str, Plan]:
    """Return each planner's plan; a planner that finds none is left out."""
    plans = {}
    for name in planners:
        try:
            plans[name] = find_plan(cost, planner=name, options=PlanOptions(most_s=budget_s)).plan
        except PlanError as error:
            say(f"{name}: {error}")
    return plans


def run_plan(endpoint: Endpoint, cost: CostModel, plan: Plan, inputs: Any, requests: int) -> float:
    """The measured latency in seconds, the median of ``requests``."""
    return run_report(endpoint, cost, plan, inputs, requests).quantile_s(0.5)


def run_report(
    endpoint: Endpoint, cost: CostModel, plan: Plan, inputs: Any, requests: int
) -> Report:
    """The run of ``requests`` one after the other, after two that do not count."""
    options = DeployOptions(reference_s=cost.reference_s)
    with deploy(compile_plan(cost.graph, plan, cost.cluster), endpoint, options) as session:
        session.run([inputs] * 2, in_flight=1)
        session.run([inputs] * requests, in_flight=1)
        return session.report()


def measure(graph: Graph, cluster: Cluster, args: argparse.Namespace) -> list[Trial]:
    """Return all planners' trials of one model."""
    say(f"{graph.name}: measuring this machine")
    profile = measure_profile(graph, MeasureOptions(repeats=9, budget_s=0.3))
    inputs = draw_inputs(graph)
    with start_lab(cluster) as lab:
        cost = CostModel(graph, cluster, profiles=profile)
        program = cost.layout(find_plan(cost, planner="single").plan).program
        cost = refine_cost(lab.endpoint, cost, program)
        fixed = cost.options
        say(
            f"message {2e3 * fixed.send_s:.2f} ms, run {1e3 * fixed.compute_s:.2f} ms,"
            f" request {1e3 * fixed.admit_s:.2f} ms"
        )
        plans = list_plans(cost, choose_planners(args.planners), args.budget)
        times: dict[str, list[float]] = {name: [] for name in plans}
        for _ in range(args.rounds):
            for name, plan in plans.items():
                times[name].append(run_plan(lab.endpoint, cost, plan, inputs, args.requests))
    trials = []
    for name, plan in plans.items():
        predicted_s = predict(cost, plan, requests=args.requests).quantile_s(0.5)
        measured_s = statistics.median(times[name])
        trials.append(Trial(graph.name, name, len(plan.stages), predicted_s, measured_s))
        say(f"{graph.name} {name}: {trials[-1].error:+.1%}")
    return trials


def trial_row(trial: Trial) -> Row:
    """Return the row of one plan."""
    times_s = (trial.predicted_s, trial.measured_s)
    case = f"{trial.model}, {trial.planner}"
    return Row(case, "ms", times_s[0] * 1e3, times_s[1] * 1e3, 1 + trial.error, "", None)


def judge(trials: Sequence[Trial]) -> list[Row]:
    """Return a row per plan, and the median and the worst error."""
    rows = [trial_row(trial) for trial in trials]
    errors = [abs(trial.error) for trial in trials]
    for name, value, most in (
        ("median error of prediction", statistics.median(errors), MOST_MEDIAN),
        ("worst error of prediction", max(errors), MOST_WORST),
    ):
        target = f"<= {most:.0%}"
        rows.append(Row(name, "%", value * 100, None, None, target, value <= most))
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--planners", default="all")
    parser.add_argument("--requests", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each plan")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds per planner")
    args = parser.parse_args()
    cluster = roomy_demo_cluster()
    trials: list[Trial] = []
    for name in args.models:
        trials += measure(load_graph(find_model(name), name=name), cluster, args)
    notes = {} if not args.json else {"trials": [asdict(trial) for trial in trials]}
    return report(judge(trials), as_json=args.json, notes=notes)


if __name__ == "__main__":
    sys.exit(main())
