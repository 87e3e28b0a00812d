"""A separable network on four devices against the plain network, measured on the lab.

Four emulated devices in a full mesh, as fast as the paper's boards and profiled in the same run.
Features are two blocks stale, and links have the rate at which a message takes as long as 1.5
blocks of these devices: there two blocks hide transfers by the requirement figure, and one does
not. A message leaves behind the first of its two blocks, so what it really may take is one block:
that rate is the second case. At each latency of links the plans run in turns, round after round,
and the middle round counts:

    one         the separable network on one device
    groups      the same, on four
    plain       the plain network of equal size on one
    channels    that divided by channels: the ring's traffic
    division    that as `best` divides it

python -m benchmarks.separable_lab [--network 4x16d-56] [--latencies 0 1 4 10] [--blocks 1.5 1]
                                 [--speed 1.7e8]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.harness import Row, draw_inputs, make_parser, report, say, shown
from benchmarks.prediction import run_report
from partita.cluster import Cluster, Device
from partita.compile import account_layout
from partita.cost import CostModel
from partita.execution import Report
from partita.graph import Graph, load_graph
from partita.lab import start_lab
from partita.leader import refine_cost
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.profile import MeasureOptions, Profile, measure_profile
from partita.separable.architecture import Architecture
from partita.separable.graph import build_graph
from partita.separable.policy import Decision, Policy, count_windows, silent
from partita.separable.requirements import least_bits_per_s, least_staleness
from partita.separable.ring import divide_by_channels
from partita.separable.time_parts import time_parts
from partita.separable.traffic import count_traffic
from partita.simulation import predict

DEVICES, STALENESS = ("d0", "d1", "d2", "d3"), 2
#: How many blocks long a message is on its way.
BLOCKS = (1.5, 1.0)
#: Multiply-accumulates per second of a device: the paper's Raspberry Pi 3B+ (section 5.4). Four of
#: them at work take far less than this machine's two cores.
SPEED = 1.7e8
LEAST_ALONE, LEAST_CHANNELS, MOST_ERROR = 3.0, 1.5, 0.05
#: Table 6's decisions with shares of channels and 16-bit floats: 14.44 % of the ring's maps.
HALVED = (
    *((9, 4), (22, 6), (18, 6), (3, 6), (16, 7), (23, 8)),
    *((9, 8), (13, 8), (20, 7)),
)


@dataclass(frozen=True)
class Network:
    """A network, and what it costs on this machine."""

    graph: Graph
    profile: Profile


def find_policy(architecture: Architecture) -> Policy:
    """The paper's policy where it is for this network, else the first of its decisions."""
    windows = count_windows(architecture, STALENESS)
    return Policy(tuple(Decision(*pair) for pair in HALVED[:windows]), STALENESS, halves=True)


def make_network(architecture: Architecture, policy: Policy) -> Network:
    """The network with drawn weights, profiled."""
    graph = load_graph(build_graph(architecture, policy))
    return Network(graph, measure_profile(graph, MeasureOptions()))


def macs_per_s(network: Network) -> float:
    """What a core of this machine computes of the separable network."""
    cluster = Cluster.of([Device("one")])
    cost = CostModel(network.graph, cluster, profiles=network.profile)
    return network.graph.macs / find_plan(cost, planner="single").latency_s


def measure(
    networks: tuple[Network, Network],
    plain: Architecture,
    slow_down: float,
    link: tuple[float, float],
    args: argparse.Namespace,
) -> list[Row]:
    """The rows of one kind of link: its bits per second, and its latency in seconds.

    Args:
        slow_down: Of the devices beside this machine's core.
    """
    devices = [Device(name, slow_down=slow_down) for name in DEVICES]
    rate, latency_s = link
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=rate / 8, latency_s=latency_s)
    runs: dict[str, list[Report]] = {}
    with start_lab(cluster) as lab:
        costs = []
        for network in networks:
            cost = CostModel(network.graph, cluster, profiles=network.profile)
            alone = cost.layout(find_plan(cost, planner="single").plan).program
            costs.append(refine_cost(lab.endpoint, cost, alone))
        plans = make_plans(costs, plain, args.budget)
        for _ in range(args.rounds):
            for name, (cost, plan) in plans.items():
                inputs = draw_inputs(cost.graph)
                run = run_report(lab.endpoint, cost, plan, inputs, args.requests)
                runs.setdefault(name, []).append(run)
    measured = {name: typical(found) for name, found in runs.items()}
    measured_s = {name: run.quantile_s(0.5) for name, run in measured.items()}
    predicted = {name: predict(*pair) for name, pair in plans.items()}
    predicted_s = {name: run.quantile_s(0.5) for name, run in predicted.items()}
    case = f"{args.network}, {rate / 1e6:.1f} Mbit/s, {1e3 * latency_s:g} ms"
    for name, (cost, plan) in plans.items():
        say(f"{case}, {name}: {describe(cost, plan)}")
    parts = {name: (measured[name], predicted[name]) for name in ("one", "groups")}
    return [
        *(row for name, pair in parts.items() for row in part_rows(f"{case}, {name}", *pair)),
        *(error_row(case, name, predicted_s[name], measured_s[name]) for name in plans),
        *(row for kind, s in (("simulated", predicted_s), ("measured", measured_s))
          for row in gain_rows(f"{case}, {kind}", s)),
    ]  # fmt: skip


def make_plans(
    costs: list[CostModel], plain: Architecture, budget_s: float
) -> dict[str, tuple[CostModel, Plan]]:
    """What is compared, by name."""
    groups, whole = costs
    options = PlanOptions(most_s=budget_s)
    by_channels = divide_by_channels(whole.graph, whole.cluster, plain, DEVICES)
    return {
        "one": (groups, find_plan(groups, planner="single").plan),
        "groups": (groups, find_plan(groups, options=options).plan),
        "plain": (whole, find_plan(whole, planner="single").plan),
        "channels": (whole, by_channels),
        "division": (whole, find_plan(whole, options=options).plan),
    }


def describe(cost: CostModel, plan: Plan) -> str:
    """How stages are divided, and what travels."""
    axes = Counter(stage.axis for stage in plan.stages)
    used = {shard.device for stage in plan.stages for shard in stage.shards}
    sent = account_layout(cost.graph, cost.layout(plan)).sent_bytes
    told = ", ".join(f"{count} {axis}" for axis, count in axes.items())
    return f"stages {told} on {len(used)} devices, {sent / 1e6:.3f} MB sent"


def typical(runs: Sequence[Report]) -> Report:
    """The run with the middle latency, the lower one of two."""
    return sorted(runs, key=lambda run: run.quantile_s(0.5))[(len(runs) - 1) // 2]


def part_rows(case: str, measured: Report, predicted: Report) -> list[Row]:
    """What an answer waits for, as figure 6 has it: measured, and predicted beside it."""
    ours, theirs = time_parts(measured), time_parts(predicted)
    return [shown(f"{case}: {part}", "ms", 1e3 * ours[part], 1e3 * theirs[part]) for part in ours]


def error_row(case: str, name: str, predicted_s: float, measured_s: float) -> Row:
    """How far the prediction is off."""
    error = measured_s / predicted_s - 1
    return Row(f"{case}, {name}: predicted", "ms", 1e3 * measured_s, 1e3 * predicted_s, 1 + error,
               f"within {MOST_ERROR:.0%}", abs(error) <= MOST_ERROR)  # fmt: skip


def gain_rows(case: str, seconds: dict[str, float]) -> list[Row]:
    """What the groups gain over each of the others."""
    ours = seconds["groups"]
    targets = {"plain": LEAST_ALONE, "one": LEAST_ALONE, "channels": LEAST_CHANNELS}
    rows = []
    for name, peer_s in seconds.items():
        if name == "groups":
            continue
        ratio, least = peer_s / ours, targets.get(name)
        words = "" if least is None else f">= {least:g}"
        met = None if least is None else ratio >= least
        rows.append(
            Row(f"{case}: groups, over {name}", "ms", 1e3 * ours, 1e3 * peer_s, ratio, words, met)
        )
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--network", default="4x16d-56")
    parser.add_argument("--latencies", type=float, nargs="+", default=[0.0, 1.0, 4.0, 10.0])
    parser.add_argument("--blocks", type=float, nargs="+", default=BLOCKS, help="of a message")
    parser.add_argument("--speed", type=float, default=SPEED, help="of a device, per second")
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each plan")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of each search")
    args = parser.parse_args()
    plain = Architecture.parse(args.network)
    grouped = Architecture.parse(args.network, groups=len(DEVICES))
    policy = find_policy(grouped)
    networks = (make_network(grouped, policy), make_network(plain, silent(plain)))
    slow_down = macs_per_s(networks[0]) / args.speed
    traffic = count_traffic(grouped, policy)
    say(
        f"{args.speed / 1e6:g} million multiply-accumulates per second and device,"
        f" {slow_down:.1f} times slower than this machine's core;"
        f" {100 * traffic.share:.2f} % of the ring's maps, {100 * traffic.byte_share:.2f} % of its"
        " bytes"
    )
    rows: list[Row] = []
    for blocks in args.blocks:
        rate = least_bits_per_s(grouped, args.speed, blocks, halves=policy.halves)
        needed = least_staleness(grouped, args.speed, 1.001 * rate, halves=policy.halves)
        say(f"{rate / 1e6:.2f} Mbit/s: by the requirement figure {needed} blocks hide transfers")
        for latency in args.latencies:
            rows += measure(networks, plain, slow_down, (rate, latency / 1e3), args)
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
