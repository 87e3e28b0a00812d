"""How near the lower bound is to the plans of ``best``, on 2 to 16 unequal devices.

Devices are emulated with slow-downs 4, 8, 12 and 16 in turn, links have 200 Mbit/s and 2 ms. What
they slow down is, by default, a device of the catalogue, so that figures are the same on every
machine; ``--device this-machine`` measures this one instead. Random sound plans, with tiles, sums
of parts and replicas in any order, are checked against the bound, too.

    python -m benchmarks.bounds [--device laptop] [--devices 2 4 8 16] [--plans 2000] [--json]
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.laws.random_plans import draw_plan
from tests.planners.fakes import draw_cost, make_chain, make_residual

from benchmarks.harness import Row, find_model, make_parser, report, say
from partita.cluster import THIS_MACHINE, Cluster, Device, find_entry
from partita.compile import build_layout
from partita.cost import CostModel
from partita.cost.amount import Amounts
from partita.cost.device import catalogue_runs
from partita.cost.estimators import Sources, make_estimator
from partita.graph import Graph, load_graph
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.bounds.lower_bound import lower_bound_s
from partita.profile import LayerProfile, Profile, Sample, measure_profile
from partita.simulation import latency_s

SLOW_DOWNS = (4, 8, 12, 16)
MEMORY_BYTES = 2_000_000_000
#: Least part of the plan's latency, by model and number of devices.
TARGETS = {
    "vgg16": {2: 0.92, 4: 0.85, 8: 0.78, 16: 0.65},
    "resnet50": {2: 0.80, 4: 0.65, 8: 0.55, 16: 0.45},
}


def unequal_cluster(count: int) -> Cluster:
    """Return ``count`` devices, each linked with each."""
    return Cluster.of(
        Device(f"d{n}", slow_down=SLOW_DOWNS[n % len(SLOW_DOWNS)], memory_bytes=MEMORY_BYTES)
        for n in range(count)
    )


def catalogue_profile(graph: Graph, kind: str) -> Profile:
    """Return what a device of the catalogue would measure: every number of rows, no noise."""
    entry, amounts = find_entry(kind), Amounts(graph).layers
    roofline = make_estimator("roofline", Sources(kind, amounts, None, entry))
    layers = {}
    for name, amount in amounts.items():
        curve = roofline.curve(amount)
        samples = tuple(Sample(rows, curve[rows], 1, 0.0) for rows in range(1, amount.rows + 1))
        layers[name] = LayerProfile(amount.kind, amount.rows, False, samples)
    return Profile(
        device=kind, machine="catalogue", threads=1, engine="roofline", provider="none",
        precision="float32", model=graph.name, model_hash=graph.hash, layers=layers,
        runs=catalogue_runs(entry),
    )  # fmt: skip


def model_rows(model: str, args: argparse.Namespace) -> list[Row]:
    """Return one row per number of devices: best, bound, and the one over the other."""
    graph = load_graph(find_model(model), name=model)
    is_here = args.device == THIS_MACHINE
    profile = measure_profile(graph) if is_here else catalogue_profile(graph, args.device)
    rows = []
    for count in args.devices:
        cost = CostModel(graph, unequal_cluster(count), profiles=profile)
        plan = find_plan(cost, options=PlanOptions(most_s=args.budget))
        began_s = time.thread_time()
        bound_s = lower_bound_s(Evaluator(cost, PlanOptions()))
        took_s = time.thread_time() - began_s
        share, least = bound_s / plan.latency_s, TARGETS[model].get(count)
        say(f"{model}, {count} devices: {share:.1%}, the bound alone takes {took_s:.2f} s")
        rows.append(
            Row(
                f"bound against best, {model}, {count} devices", "ms", bound_s * 1e3,
                plan.latency_s * 1e3, share, f">= {least:.0%}" if least else "",
                None if least is None else share >= least,
            )
        )  # fmt: skip
    return rows


def random_row(count: int) -> Row:
    """Return how many of ``count`` random plans are faster than their bound."""
    over = 0
    for seed in range(count):
        rng = random.Random(seed)
        graph = make_residual(seed) if seed % 3 == 2 else make_chain(2 + seed % 4, seed=seed)
        cost = draw_cost(rng, graph, rng.randint(1, 4))
        layout = build_layout(graph, draw_plan(rng, graph, cost.cluster), cost.cluster)
        bound_s = lower_bound_s(Evaluator(cost, PlanOptions()))
        over += latency_s(layout.program, cost.price(layout)) < bound_s
    return Row(f"bounds above random plans, of {count}", "plans", over, None, None, "0", over == 0)


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--device", default="laptop", help="kind of the catalogue, or this-machine")
    parser.add_argument("--devices", nargs="+", type=int, default=(2, 4, 8, 16))
    parser.add_argument("--models", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--plans", type=int, default=2000, help="random plans")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each search")
    args = parser.parse_args()
    rows = [row for model in args.models for row in model_rows(model, args)]
    return report([*rows, random_row(args.plans)], as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
