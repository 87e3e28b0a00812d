"""Compressed payloads between an edge and a cloud on the emulated lab: predicted beside measured.

A trained detector of number plates on drawn photos: all in the cloud, its input in several formats,
and cut where least crosses in its middle, in 4 bits. What payloads are expected to take comes from
some photos, what they take from others. Latencies need a quiet machine.

    python -m benchmarks.compressed [--rate 20] [--photos 4] [--json]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import msgspec

from benchmarks.harness import Row, at_most, make_parser, report, say
from partita.cluster import Cluster, Device, Link
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.demo.detector import IMAGE_INPUT, detector_model, image_to_input
from partita.demo.photo import draw_photo
from partita.exactness.compare import check_exactness
from partita.graph import Graph, load_graph
from partita.lab import start_lab
from partita.leader import DeployOptions, deploy, refine_cost
from partita.plan import Identity, Plan, Shard, Stage
from partita.planners import PlanOptions, find_plan
from partita.profile import MeasureOptions, measure_profile
from partita.quantisation import choose_bits, collect_ranges, measure_shares, quantize
from partita.quantisation.samples import Feeds
from partita.regions import COMPRESSED, with_share
from partita.simulation import predict

EDGE, CLOUD = "camera", "cloud"
SLOW_DOWN, EDGE_BITS, SAMPLES = 8.0, 4, 4
MOST_ERROR = 0.05
_BITS_PER_BYTE = 8


@dataclass(frozen=True)
class Case:
    """One plan, and the costs that it was made with."""

    name: str
    cost: CostModel
    plan: Plan


def draw_feeds(seeds: range) -> list[Feeds]:
    """Return photos as the detector takes them."""
    return [{IMAGE_INPUT: image_to_input(draw_photo(seed)[0])} for seed in seeds]


def make_cluster(rate_mbit_s: float) -> Cluster:
    """Return a slow camera and this machine, with a thin link."""
    bytes_per_s = rate_mbit_s * 1e6 / _BITS_PER_BYTE
    links = [Link(a, b, bytes_per_s, 5e-3) for a, b in ((EDGE, CLOUD), (CLOUD, EDGE))]
    return Cluster.of([Device(EDGE, slow_down=SLOW_DOWN), Device(CLOUD)], links=links)


def list_cases(graph: Graph, cost: CostModel, samples: list[Feeds]) -> Iterator[Case]:
    """Yield the input's formats for all in the cloud, and the soonest cut with few bits."""
    payloads = partial(measure_shares, samples)
    for wire in (None, *COMPRESSED):
        options = PlanOptions(compress=wire, payloads=payloads)
        found = find_plan(cost, planner="cloud_only", options=options)
        yield Case(f"cloud alone, input as {wire or 'bytes'}", cost, found.plan)
    bits = choose_bits(graph, collect_ranges(graph, samples), EDGE_BITS, EDGE_BITS)
    quantised = cost.of(quantize(graph, bits))
    plan, crossing = cut_in_the_middle(quantised)
    yield Case(f"cut, {EDGE_BITS} bits, codes", quantised, plan)
    shares = measure_shares(samples, quantised.graph, crossing, "zlib")
    wires = {tensor: with_share("zlib", share) for tensor, share in shares.items()}
    squeezed = msgspec.structs.replace(plan, wires=wires)
    yield Case(f"cut, {EDGE_BITS} bits, zlib", quantised, squeezed)


def cut_in_the_middle(cost: CostModel) -> tuple[Plan, tuple[str, ...]]:
    """Return a plan whose cut least crosses, of those in the middle third, and what crosses."""
    graph, count = cost.graph, len(cost.graph.layers)
    cut = min(graph.cuts()[count // 3 : 2 * count // 3], key=lambda cut: cut.bytes)
    names = [layer.name for layer in graph.layers]
    parts = ((EDGE, names[: cut.position]), (CLOUD, names[cut.position :]))
    stages = tuple(Stage(d, tuple(layers), "none", (Shard(d),)) for d, layers in parts)
    model, where = Identity(graph.name, graph.hash), Identity("lab", cost.cluster.hash)
    return Plan(model, where, stages, "by hand", bits=dict(graph.bits)), cut.tensors


def measure(case: Case, endpoint: object, photos: list[Feeds]) -> Iterator[Row]:
    """Yield what was predicted and measured of a plan: seconds, bytes and the answers' error."""
    cost = case.cost
    compiled = compile_plan(cost.graph, case.plan, cost.cluster)
    options = DeployOptions(reference_s=cost.reference_s)
    with deploy(compiled, endpoint, options) as session:  # type: ignore[arg-type]
        session.run(photos[:1], in_flight=1)
        session.run(photos, in_flight=1)
        measured = session.report()
    predicted = predict(cost, case.plan, requests=len(photos))
    times_s = predicted.mean_s, measured.mean_s
    ratio = times_s[1] / times_s[0]
    is_met = bool(abs(ratio - 1) <= MOST_ERROR)
    target = f"within {MOST_ERROR:.0%}"
    yield Row(case.name, "ms", 1e3 * times_s[0], 1e3 * times_s[1], ratio, target, is_met)
    sizes = [sum(link.bytes for link in one.links) / len(photos) for one in (predicted, measured)]
    yield Row(f"{case.name}: sent", "kB", sizes[0] / 1e3, sizes[1] / 1e3, None, "", None)
    worst = max(
        found.relative
        for found in check_exactness(cost.graph, compiled, photos[:1])
        if found.tensor in cost.graph.outputs
    )
    yield Row(f"{case.name}: output error", "", worst, None, None, "", None)


def run(args: argparse.Namespace) -> list[Row]:
    """Return the rows of all cases."""
    graph = load_graph(detector_model())
    cluster = make_cluster(args.rate)
    say("measuring this machine")
    profile = measure_profile(graph, MeasureOptions(repeats=9, budget_s=0.3))
    samples = draw_feeds(range(SAMPLES))
    photos = draw_feeds(range(100, 100 + args.photos))
    rows: list[Row] = []
    with start_lab(cluster) as lab:
        cost = CostModel(graph, cluster, profiles=profile)
        program = cost.layout(find_plan(cost, planner="cloud_only").plan).program
        cost = refine_cost(lab.endpoint, cost, program)
        for case in list_cases(graph, cost, samples):
            say(case.name)
            rows += measure(case, lab.endpoint, photos)
    errors = [abs(row.ratio - 1) for row in rows if row.ratio is not None]
    rows.append(at_most("worst error of prediction", "%", 100 * max(errors), 100 * MOST_ERROR))
    return rows


def main() -> int:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rate", type=float, default=20.0, help="Mbit/s of the link")
    parser.add_argument("--photos", type=int, default=4, help="requests of each plan")
    args = parser.parse_args()
    return report(run(args), as_json=args.json)


if __name__ == "__main__":
    raise SystemExit(main())
