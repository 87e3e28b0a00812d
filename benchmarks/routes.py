"""Replicas of unequal speed: requests by share, by the shortest queue, and on the fastest alone.

Simulated on boards of the catalogue (MobileNet-v2 on a Jetson Xavier that feeds itself and a
Raspberry Pi 4, 200 Mbit/s), and on the emulated lab: two workers with slow-downs 8 and 32 beside a
requester that computes nothing, predicted and measured, in turns. Shares are those, of up to 64
parts, that are simulated to answer most often.

    python -m benchmarks.routes [--requests 64] [--in-flight 16] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

from msgspec.structs import replace

from benchmarks.harness import Row, draw_inputs, find_model, make_parser, report, say, whole_plan
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.cost import CostModel, update_cost
from partita.execution import Conditions, Report
from partita.fabric import Endpoint
from partita.graph import load_graph
from partita.lab import start_lab
from partita.leader import DeployOptions, deploy, refine_cost
from partita.plan import Plan, Shard
from partita.profile import MeasureOptions, measure_profile
from partita.simulation import answer_period_s, predict, predict_period_s

MODEL = "mobilenet_v2"
BOARDS = (Device("xavier", kind="jetson-xavier"), Device("pi", kind="raspberry-pi-4"))
LAB = (Device("camera"), Device("fast", slow_down=8.0), Device("slow", slow_down=32.0))
BYTES_PER_S, LATENCY_S = 25e6, 0.001
#: What a profile may be wrong by, before a running plan is changed for it.
SLOWER = 1.25
#: Predicted against measured images per second.
MOST_OFF = 0.05
#: The finest share that is tried: one request in so many.
_PARTS = 64


def make_cluster(devices: Sequence[Device]) -> Cluster:
    """The devices with equal links between all."""
    return Cluster.of(devices, bandwidth_bytes_per_s=BYTES_PER_S, latency_s=LATENCY_S)


def list_plans(cost: CostModel, fast: str, slow: str, in_flight: int) -> dict[str, Plan]:
    """The whole network on the faster device, and on both by queue and by share."""
    alone = replace(whole_plan(cost.graph, cost.cluster, fast), in_flight=in_flight)
    stage = replace(alone.stages[0], axis="replica", shards=(Shard(fast), Shard(slow)))
    by_share = [
        replace(alone, stages=(replace(stage, shares=(parts, 1)),)) for parts in range(1, _PARTS)
    ]
    return {
        f"{fast} alone": alone,
        "by queue": replace(alone, stages=(stage,)),
        "by share": min(by_share, key=lambda plan: predict_period_s(cost, plan)),
    }


def simulate_boards(requests: int, in_flight: int) -> list[Row]:
    """What each way answers per second: of a batch, by queue beside; for ever, alone beside."""
    cost = CostModel(load_graph(find_model(MODEL), name=MODEL), make_cluster(BOARDS))
    plans = list_plans(cost, "xavier", "pi", in_flight)
    batch = {
        name: predict(cost, plan, requests=requests).images_per_second
        for name, plan in plans.items()
    }
    slower = update_cost(cost, Conditions({}, {"pi": SLOWER}))
    steady = {name: 1 / predict_period_s(cost, plan) for name, plan in plans.items()}
    off = {
        name: 1 / answer_period_s(layout.program, slower.price(layout))
        for name, layout in zip(plans, map(slower.layout, plans.values()), strict=True)
    }
    shares = ":".join(map(str, plans["by share"].stages[0].shares))
    rows = []
    for what, rates, peer in (
        (f"{requests} requests", batch, "by queue"),
        ("steady load", steady, "xavier alone"),
        (f"the Pi {SLOWER:g} times slower than planned for", off, "xavier alone"),
    ):
        case = f"simulated Xavier and Pi 4, {what}, shares {shares} (beside {peer})"
        ratio = rates["by share"] / rates[peer]
        rows.append(
            Row(case, "images/s", rates["by share"], rates[peer], ratio, ">= 1", ratio >= 1)
        )
        say(f"{what}: {', '.join(f'{name} {rate:.1f}/s' for name, rate in rates.items())}")
    return rows


def run(endpoint: Endpoint, cost: CostModel, plan: Plan, requests: int) -> Report:
    """The measured run of some requests."""
    inputs = draw_inputs(cost.graph)
    options = DeployOptions(reference_s=cost.reference_s)
    with deploy(compile_plan(cost.graph, plan, cost.cluster), endpoint, options) as session:
        session.run([inputs] * 2, in_flight=1)
        session.run([inputs] * requests)
        return session.report()


def run_lab(requests: int, in_flight: int, rounds: int) -> list[Row]:
    """Measured images per second of each way beside the predicted ones."""
    graph, cluster = load_graph(find_model(MODEL), name=MODEL), make_cluster(LAB)
    say("measuring this machine")
    profile = measure_profile(graph, MeasureOptions(repeats=9, budget_s=0.3))
    with start_lab(cluster) as lab:
        cost = CostModel(graph, cluster, profiles=profile)
        first = cost.layout(whole_plan(graph, cluster, "fast")).program
        cost = refine_cost(lab.endpoint, cost, first)
        plans = list_plans(cost, "fast", "slow", in_flight)
        rates: dict[str, list[float]] = {name: [] for name in plans}
        for _ in range(rounds):
            for name, plan in plans.items():
                measured = run(lab.endpoint, cost, plan, requests)
                rates[name].append(measured.images_per_second)
    shares = ":".join(map(str, plans["by share"].stages[0].shares))
    return judge_lab(
        {name: predict(cost, plan, requests=requests) for name, plan in plans.items()},
        {name: statistics.median(found) for name, found in rates.items()},
        f"lab, {requests} requests, shares {shares}",
    )


def judge_lab(predicted: dict[str, Report], measured: dict[str, float], case: str) -> list[Row]:
    """Predicted beside measured; gains, too, which a machine that is slow for a while leaves."""
    rows = []
    rates = {name: report.images_per_second for name, report in predicted.items()}
    target = f"within {MOST_OFF:.0%}"
    alone = next(iter(rates))
    for name, rate in rates.items():
        pairs = [("images/s", rate, measured[name], name)]
        if name != alone:
            gains = rate / rates[alone], measured[name] / measured[alone]
            pairs.append(("x", *gains, f"{name} over {alone}"))
        for unit, ours, peer, what in pairs:
            row = f"{case}: {what}, predicted (beside measured)"
            is_met = abs(ours / peer - 1) <= MOST_OFF
            rows.append(Row(row, unit, ours, peer, ours / peer, target, is_met))
    ours, peer = measured["by share"], measured["by queue"]
    what = f"{case}: by share, measured (beside by queue)"
    return [*rows, Row(what, "images/s", ours, peer, ours / peer, ">= 1", ours >= peer)]


def main() -> int:
    """Run, and compare with the targets."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each plan on the lab")
    args = parser.parse_args()
    rows = simulate_boards(args.requests, args.in_flight)
    rows += run_lab(args.requests, args.in_flight, args.rounds)
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
