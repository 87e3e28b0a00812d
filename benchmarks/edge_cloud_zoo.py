"""AUTO-SPLIT's plans for the networks of its paper against all in the cloud and all on the edge.

Simulated, with Eyeriss at the edge and a TPU in the cloud, at several uplinks; the answer's way
back counts. Weights are drawn: a plan is accurate enough where its outputs have a signal-to-noise
ratio of 20 dB, and all on the edge in 8 bits is a peer where it has. The search's seconds are those
of the processor for one network; ranges and error tables, and the runs that judge, are left out.

python -m benchmarks.edge_cloud_zoo [--models a,b] [--uplinks 1,3,10,20] [--json]
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

from benchmarks.harness import Row, at_most, make_parser, report, say
from partita.cluster import Cluster, Link
from partita.cluster.model import Device
from partita.cost import CostModel, CostOptions
from partita.errors import InfeasibleError
from partita.graph import load_graph
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.quantisation import QuantisationData, Reference, collect_ranges, tabulate_errors
from partita.reproduce.autosplit.setting import CLOUD, EDGE, LEAST_DB, MODELS, WIDTHS
from partita.reproduce.autosplit.subject import draw_pictures
from partita.zoo import build_model

#: What a judge says of a network that is not quantised, decibels.
_EXACT_DB = 100.0
SEARCHED, MOST_SEARCH_S = "resnet50", 10.0


@dataclass
class Judge:
    """Decibels of the outputs over what a plan's bits change; counts its processor seconds."""

    reference: Reference
    spent_s: float = 0.0

    def __call__(self, plan: Plan) -> float:
        start_s = time.process_time()
        found = _EXACT_DB
        if plan.bits:
            found = min(found, self.reference.signal_to_noise_db(plan.bits))
        self.spent_s += time.process_time() - start_s
        return max(found, 1e-3)


def make_cluster(uplink_mbit_s: float) -> Cluster:
    """Return camera and server, each way as fast."""
    rate = uplink_mbit_s * 1e6 / 8
    devices = [Device("camera", kind=EDGE), Device("server", kind=CLOUD)]
    links = [Link("camera", "server", rate, 0.0), Link("server", "camera", rate, 0.0)]
    return Cluster.of(devices, links=links, requester="camera")


def compare(name: str, uplinks: list[float]) -> tuple[float, float]:
    """Return the worst of AUTO-SPLIT's latency over the soonest peer's, and a search's seconds."""
    graph = load_graph(build_model(name))
    ranges = collect_ranges(graph, draw_pictures(graph, 2, first=0))
    data = QuantisationData(tabulate_errors(graph, ranges, WIDTHS), ranges)
    reference = Reference(graph, draw_pictures(graph, 1, first=2))
    worst, search_s = 0.0, 0.0
    for uplink in uplinks:
        judge = Judge(reference)
        cost = CostModel(graph, make_cluster(uplink), options=CostOptions(precision="float16"))
        options = PlanOptions(
            wires=dict.fromkeys(graph.inputs, "uint8"),
            quantisation=data,
            judge=judge,
            accuracy_drop=1 - LEAST_DB / _EXACT_DB,
            method={"edge_only.bits": "8"},
        )
        start_s = time.process_time()
        ours = find_plan(cost, planner="autosplit", options=options)
        search_s = max(search_s, time.process_time() - start_s - judge.spent_s)
        peers = {"cloud": find_plan(cost, planner="cloud_only", options=options).latency_s}
        plain = PlanOptions(wires=options.wires)
        for peer, asked in (("edge", plain), ("8 bits", options)):
            try:
                found = find_plan(cost, planner="edge_only", options=asked)
            except InfeasibleError:
                continue
            if judge(found.plan) >= LEAST_DB:
                peers[peer] = found.latency_s
        ratio = ours.latency_s / min(peers.values())
        shown = ", ".join(f"{peer} {1e3 * seconds:.1f}" for peer, seconds in peers.items())
        say(f"{name} at {uplink:g} Mbit/s: {1e3 * ours.latency_s:.1f} ms ({shown}),"
            f" {len(ours.trade_offs)} judged")  # fmt: skip
        worst = max(worst, ratio)
    return worst, search_s


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--uplinks", default="1,3,10,20")
    args = parser.parse_args()
    uplinks = [float(text) for text in args.uplinks.split(",")]
    found = {name: compare(name, uplinks) for name in args.models.split(",")}
    worst = max(ratio for ratio, _ in found.values())
    cases = len(found) * len(uplinks)
    rows = [Row(f"AUTO-SPLIT over the sooner of cloud and edge, worst of {cases}", "", worst, None,
                worst, "<= 1", worst <= 1 + 1e-9)]  # fmt: skip
    if SEARCHED in found:
        rows.append(at_most(f"whole search, {SEARCHED}", "s", found[SEARCHED][1], MOST_SEARCH_S))
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
