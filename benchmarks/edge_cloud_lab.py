"""AUTO-SPLIT against all in the cloud and all on the edge, measured on the lab.

An emulated camera (slow-down 16) and cloud with a thin uplink between them; the network is profiled
in the same run. The three plans run in turns, round after round, and the median over rounds counts.
What is accurate enough: see ``benchmarks.tiers``.

python -m benchmarks.edge_cloud_lab [--model mobilenet_v2] [--uplinks 1 3 10 20] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence

from benchmarks.harness import Row, draw_inputs, make_parser, report, say
from benchmarks.prediction import run_plan
from benchmarks.tiers import learn
from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.graph import Graph, load_graph
from partita.lab import start_lab
from partita.leader import refine_cost
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.profile import MeasureOptions, Profile, measure_profile
from partita.quantisation import QuantisationData
from partita.simulation import predict
from partita.zoo import build_model

RIVALS, OURS = ("cloud_only", "edge_only"), "autosplit"
MOST_OVER, MOST_ERROR = 0.03, 0.05
CAMERA_SLOWER, DELAY_S = 16.0, 5e-3
Learned = tuple[QuantisationData, Callable[[Plan], float]]


def measure(
    graph: Graph, profile: Profile, learned: Learned, uplink: float, args: argparse.Namespace
) -> list[Row]:
    """Return the rows of one uplink, in Mbit/s."""
    devices = [Device("camera", slow_down=CAMERA_SLOWER), Device("cloud")]
    rate = uplink * 1e6 / 8
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=rate, latency_s=DELAY_S)
    data, judge = learned
    options = PlanOptions(quantisation=data, judge=judge)
    inputs = draw_inputs(graph)
    with start_lab(cluster) as lab:
        cost = CostModel(graph, cluster, profiles=profile)
        program = cost.layout(find_plan(cost, planner="cloud_only").plan).program
        cost = refine_cost(lab.endpoint, cost, program)
        plans = {p: find_plan(cost, planner=p, options=options).plan for p in (OURS, *RIVALS)}
        times: dict[str, list[float]] = {name: [] for name in plans}
        for _ in range(args.rounds):
            for name, plan in plans.items():
                times[name].append(run_plan(lab.endpoint, cost, plan, inputs, args.requests))
    took_s = {name: statistics.median(values) for name, values in times.items()}
    places = [(s.shards[0].device, len(s.layers)) for s in plans[OURS].stages]
    say(f"{uplink:g} Mbit/s: {places}, {took_s}")
    predicted_s = predict(cost.of_plan(plans[OURS]), plans[OURS]).quantile_s(0.5)
    least_s, error = min(took_s[name] for name in RIVALS), took_s[OURS] / predicted_s - 1
    case, ratio = f"{args.model}, uplink {uplink:g} Mbit/s", took_s[OURS] / least_s
    return [
        Row(f"{case}; peer: the better of cloud and edge", "ms", 1e3 * took_s[OURS], 1e3 * least_s,
            ratio, f"<= {1 + MOST_OVER}", ratio <= 1 + MOST_OVER),
        Row(f"{case}: measured over predicted", "%", 100 * error, None, None,
            f"within {MOST_ERROR:.0%}", abs(error) <= MOST_ERROR),
    ]  # fmt: skip


def rows_of(args: argparse.Namespace, uplinks: Sequence[float]) -> list[Row]:
    """Return the rows of all uplinks."""
    graph = load_graph(build_model(args.model))
    learned = learn(graph)
    profile = measure_profile(graph, MeasureOptions(repeats=9, budget_s=0.3))
    return [row for uplink in uplinks for row in measure(graph, profile, learned, uplink, args)]


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="mobilenet_v2")
    parser.add_argument("--uplinks", type=float, nargs="+", default=[1.0, 3.0, 10.0, 20.0])
    parser.add_argument("--requests", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each plan")
    args = parser.parse_args()
    return report(rows_of(args, args.uplinks), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
