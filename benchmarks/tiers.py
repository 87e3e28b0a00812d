"""A camera, a gateway and a cloud: three tiers in bits against AUTO-SPLIT's two.

ResNet-50 (weights from a seed), camera to gateway 50 Mbit/s, uplinks 3 Mbit/s, the gateway four
times as fast as the camera, the camera's memory half of the 8-bit model beside what any worker
takes. Simulated. Accurate enough is an output whose signal is 20 dB over what rounding changes, on
inputs apart from the samples.

python -m benchmarks.tiers [--model resnet50] [--uplinks 1 3 10 20] [--json]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np

from benchmarks.harness import Row, make_parser, report, say
from partita.cluster import Cluster, Device, Link
from partita.cost import CostModel, update_cost
from partita.cost.memory import PROCESS_BYTES, SESSION_BYTES
from partita.execution import Conditions
from partita.graph import Graph, load_graph
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.quantisation import QuantisationData, collect_ranges, tabulate_errors
from partita.quantisation.outputs import Reference
from partita.units import format_seconds
from partita.zoo import build_model

NAMES = ("camera", "gateway", "cloud")
#: Both other devices are of this kind: the camera so much slower than the cloud.
KIND, CAMERA_SLOWER, GATEWAY_FASTER = "laptop", 16.0, 4.0
NEAR_MBIT, UPLINK_MBIT, LEAST_GAIN = 50.0, 3.0, 1.2
LEAST_DB = 20.0
SAMPLES, HELD_OUT = 16, 4


def make_cost(graph: Graph, uplink_mbit: float) -> CostModel:
    """Return the costs of the three devices."""
    links = [
        Link(*ends, (uplink_mbit if "cloud" in ends else NEAR_MBIT) * 1e6 / 8, latency_s=2e-3)
        for ends in permutations(NAMES, 2)
    ]
    weights = sum(layer.weight_bytes for layer in graph.layers)
    room = weights // 4 // 2 + PROCESS_BYTES + SESSION_BYTES
    devices = [Device("camera", KIND, memory_bytes=room), *(Device(n, KIND) for n in NAMES[1:])]
    slower = {"camera": CAMERA_SLOWER, "gateway": CAMERA_SLOWER / GATEWAY_FASTER}
    cost = CostModel(graph, Cluster.of(devices, links=links))
    return update_cost(cost, Conditions(slowness=slower))


def learn(graph: Graph) -> tuple[QuantisationData, Callable[[Plan], float]]:
    """Return what drawn samples say, and a judge: 1 where the signal is strong enough, else 0."""
    rng = np.random.default_rng(0)
    drawn = [
        {s.name: rng.standard_normal(s.shape).astype(np.float32) for s in graph.input_specs}
        for _ in range(SAMPLES + HELD_OUT)
    ]
    ranges = collect_ranges(graph, drawn[:SAMPLES])
    reference, known = Reference(graph, drawn[SAMPLES:]), dict[str, float]()

    def judge(plan: Plan) -> float:
        key = repr(sorted(plan.bits.items()))
        if key not in known:
            known[key] = reference.signal_to_noise_db(plan.bits)
        return float(known[key] >= LEAST_DB)

    return QuantisationData(tabulate_errors(graph, ranges), ranges), judge


def rows_of(model: str, uplinks: Sequence[float]) -> list[Row]:
    """Return a row for each uplink: two tiers, three tiers, and by which factor they gain."""
    graph = load_graph(build_model(model))
    data, judge = learn(graph)
    rows = []
    for uplink in uplinks:
        cost = make_cost(graph, uplink)
        options = PlanOptions(quantisation=data, judge=judge)
        results = [find_plan(cost, planner=p, options=options) for p in ("autosplit", "tiers")]
        for result in results:
            places = [(s.axis, len(s.layers), [d.device for d in s.shards])
                      for s in result.plan.stages]  # fmt: skip
            took = format_seconds(result.search_s)
            say(f"{uplink:g} Mbit/s, {result.plan.planner}: {places}, searched for {took}")
        two_s, three_s = (result.latency_s for result in results)
        least = LEAST_GAIN if uplink == UPLINK_MBIT else 1.0
        rows.append(
            Row(f"{model}, uplink {uplink:g} Mbit/s; peer: two tiers", "ms", 1e3 * three_s,
                1e3 * two_s, two_s / three_s, f"ratio >= {least:g}", two_s >= least * three_s)
        )  # fmt: skip
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--uplinks", type=float, nargs="+", default=[UPLINK_MBIT])
    args = parser.parse_args()
    return report(rows_of(args.model, args.uplinks), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
