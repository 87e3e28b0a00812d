"""Two workers of one thread each against bare ONNX Runtime with one thread, on one machine.

VGG-19 at 224 x 224 with weights from a seed; links are not shaped, and the cluster that ``best``
plans on has the rate and latency that messages between the two workers were measured to have.

    python -m benchmarks.scaling [--model light_vgg19] [--rounds 9] [--json]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from benchmarks.harness import (
    Row,
    draw_inputs,
    find_model,
    make_parser,
    open_session,
    report,
    say,
    take_turns,
)
from benchmarks.links import measure_free_link
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.fabric import Endpoint
from partita.graph import load_graph
from partita.lab import LabOptions, start_lab
from partita.leader import deploy
from partita.planners import PlanOptions, find_plan
from partita.profile import MeasureOptions, measure_profile

NAMES = ("left", "right")
LEAST_SPEED_UP = 1.7
QUICKLY = MeasureOptions(repeats=9, budget_s=0.3)


def link_cluster(cluster: Cluster, endpoint: Endpoint) -> Cluster:
    """Return the cluster with links as they were measured."""
    pairs = [(link.source, link.target) for link in cluster.links]
    return replace(cluster, links=tuple(measure_free_link(endpoint, *pair) for pair in pairs))


def measure(name: str, rounds: int, budget_s: float) -> tuple[Row, dict[str, str]]:
    model = find_model(name)
    graph = load_graph(model, name=name)
    inputs = draw_inputs(graph)
    bare = open_session(model, 1)
    say("measuring this machine")
    profile = measure_profile(graph, QUICKLY)
    bare_cluster = Cluster.of([Device(n, memory_bytes=8_000_000_000) for n in NAMES])
    with start_lab(bare_cluster, LabOptions(threads=1, shaped=False)) as lab:
        cluster = link_cluster(bare_cluster, lab.endpoint)
        cost = CostModel(graph, cluster, profiles=profile)
        found = find_plan(cost, options=PlanOptions(most_s=budget_s))
        say(f"running {len(found.plan.stages)} stages")
        with deploy(compile_plan(graph, found.plan, cluster), lab.endpoint) as session:
            calls = {
                "ours": lambda: session.run([inputs], in_flight=1),
                "peer": lambda: bare(inputs),
            }
            times = take_turns(calls, rounds=rounds)
    speed_up = times["peer"] / times["ours"]
    link = cluster.links[0]
    notes = {
        "predicted": f"{found.latency_s * 1e3:.1f} ms",
        "stages": str(len(found.plan.stages)),
        "link": f"{link.bandwidth_bytes_per_s / 1e6:.0f} MB/s, {link.latency_s * 1e6:.0f} us",
    }
    case = f"{name}, 2 workers of 1 thread, speed-up"
    return Row(
        case,
        "ms",
        times["ours"] * 1e3,
        times["peer"] * 1e3,
        speed_up,
        f">= {LEAST_SPEED_UP:g}x",
        speed_up >= LEAST_SPEED_UP,
    ), notes


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="light_vgg19")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=5.0, help="seconds for the planner")
    args = parser.parse_args()
    row, notes = measure(args.model, args.rounds, args.budget)
    return report([row], as_json=args.json, notes=notes)


if __name__ == "__main__":
    sys.exit(main())
