"""Whether more or faster machines ever give a slower plan, and how long planning takes.

Chains of clusters, each like the one before but for one more device, one faster device, faster
links, more memory or more axes. A plan for the one before could run on it and is no slower there,
so that a slower plan is the search's miss. Devices are a laptop of the catalogue, slowed down.

    python -m benchmarks.nested [--chains 25] [--steps 4] [--objective latency] [--times] [--json]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from benchmarks.harness import Row, find_model, make_parser, report, say
from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import InfeasibleError
from partita.graph import Graph, load_graph
from partita.planners import Objective, PlanOptions, Result, find_plan
from partita.profile import LayerProfile, Profile, RunCost, Sample
from partita.regions import Region

MODELS = ("vgg16", "resnet50", "mobilenet_v2", "squeezenet")
#: Latencies closer than this are equal.
EQUAL = 1e-9
MOST_DEVICES = 16
#: Requests under way where throughput is the objective.
IN_FLIGHT = 8
#: Axes, each list within the next.
AXES = (("rows",), ("rows", "tiles"), None)
#: The model, the number of devices and the most seconds of planning on one core.
TIMED = (
    ("vgg16", 4, 3.0),
    ("vgg16", 11, 5.0),
    ("vgg16", 16, 20.0),
    ("resnet152", 32, 30.0),
    ("resnet50", 64, 30.0),
    ("resnet50", 128, 60.0),
)


@dataclass(frozen=True)
class Case:
    """A cluster, and what is asked on it.

    Attributes:
        change: What it has more than the one before; empty for the first of a chain.
        slow_downs: Of each device, multiples of a laptop's time.
    """

    change: str
    slow_downs: tuple[float, ...]
    bandwidth_bytes_per_s: float
    latency_s: float
    memory_bytes: int
    axes: int

    def cluster(self) -> Cluster:
        """Return the devices, each linked with each."""
        devices = [
            Device(f"d{n}", slow_down=slow_down, memory_bytes=self.memory_bytes)
            for n, slow_down in enumerate(self.slow_downs)
        ]
        rate = self.bandwidth_bytes_per_s
        return Cluster.of(devices, bandwidth_bytes_per_s=rate, latency_s=self.latency_s)


def laptop_profile(graph: Graph) -> Profile:
    """Return what the catalogue's roofline says of a laptop, in the form of a measured profile."""
    alone = CostModel(graph, Cluster.of([Device("laptop", kind="laptop")]))
    layers = {}
    for layer in graph.layers:
        output = layer.outputs[0]
        whole = Region.full(graph.tensors[output].shape)
        rows = whole.shape[2] if len(whole.shape) > 2 else 1
        samples = []
        for count in sorted({1, *(-(-rows * part // 8) for part in range(1, 9))}):
            box = whole.with_axis(2, (0, count)) if rows > 1 else whole
            samples.append(
                Sample(count, alone.layer_s("laptop", layer.name, {output: box}), 1, 0.0)
            )
        layers[layer.name] = LayerProfile(layer.kind, rows, False, tuple(samples))
    runs = RunCost(overhead_s=1e-4, copy_s_per_byte=1e-10)
    return Profile(
        *("laptop", "catalogue", 1, "none", "CPUExecutionProvider", "float32"),
        *(graph.name, graph.hash, layers, runs),
    )


def draw_chain(seed: int, steps: int) -> Iterator[Case]:
    """Yield cases that grow, drawn from a seed."""
    rng = random.Random(seed)
    case = Case(
        "",
        tuple(rng.uniform(3, 16) for _ in range(rng.choice((2, 3, 4, 6, 8, 11)))),
        10 ** rng.uniform(6.5, 8.3),
        rng.choice((2e-4, 1e-3, 2e-3)),
        int(10 ** rng.uniform(8.6, 9.5)),
        rng.choice((0, 1, 2, 2)),
    )
    yield case
    for _ in range(steps):
        case = _grown(case, rng)
        yield case


def _grown(case: Case, rng: random.Random) -> Case:
    changes = ["device", "device", "faster device", "faster links", "more memory", "more axes"]
    change = rng.choice(changes[: 6 if case.axes < len(AXES) - 1 else 5])
    slow_downs = list(case.slow_downs)
    if change == "device":
        slow_downs.append(rng.uniform(3, 16))
    elif change == "faster device":
        slow_downs[rng.randrange(len(slow_downs))] *= rng.uniform(0.6, 0.95)
    rate = case.bandwidth_bytes_per_s * (rng.uniform(1.1, 2) if change == "faster links" else 1)
    memory = case.memory_bytes * (2 if change == "more memory" else 1)
    axes = case.axes + (change == "more axes")
    return Case(change, tuple(slow_downs), rate, case.latency_s, memory, axes)


def plan_chain(
    seed: int, steps: int, graph: Graph, profile: Profile, objective: Objective = "latency"
) -> Iterator[tuple[str, float]]:
    """Yield each change of a chain, and the part by which it made the plan slower."""
    before_s = inf
    for case in draw_chain(seed, steps):
        cost = CostModel(graph, case.cluster(), profiles=profile)
        began_s = time.process_time()
        try:
            options = PlanOptions(
                objective=objective, axes=AXES[case.axes], in_flight=_in_flight(objective)
            )
            found = find_plan(cost, options=options)
        except InfeasibleError:  # too little memory, at least for what was tried
            latency_s, status = inf, "none"
        else:
            latency_s, status = _value_s(found, objective), found.status
        took_s = time.process_time() - began_s
        slower = latency_s / before_s - 1 if before_s < inf else 0.0
        say(
            f"{seed} {graph.name}, {len(case.slow_downs)} devices, {case.change or 'first'}:"
            f" {latency_s * 1e3:.2f} ms, {slower:+.3%}, {took_s:.1f} s, {status}"
        )
        if case.change:
            yield case.change, slower
        before_s = latency_s


def _in_flight(objective: Objective) -> int:
    return IN_FLIGHT if objective == "throughput" else 1


def _value_s(found: Result, objective: Objective) -> float:
    """Return what is made small: the latency, or the seconds per request under load."""
    return found.estimate.period_s if objective == "throughput" else found.latency_s


def nested_rows(chains: range, steps: int, objective: Objective) -> list[Row]:
    """Return how many plans got slower, and by how much at worst."""
    graphs = {name: load_graph(find_model(name), name=name) for name in MODELS}
    profiles = {name: laptop_profile(graph) for name, graph in graphs.items()}
    slower: list[tuple[str, float]] = []
    for seed in chains:
        name = MODELS[seed % len(MODELS)]
        slower += plan_chain(seed, steps, graphs[name], profiles[name], objective)
    misses = [miss for _, miss in slower if miss > EQUAL]
    worst = max(misses, default=0.0) * 100
    return [
        Row(
            f"slower with more, of {len(slower)}", "plans", len(misses), None, None, "0", not misses
        ),
        Row("slower with more, worst", "%", worst, None, None, "0", not misses),
    ]


def time_rows(objective: Objective) -> list[Row]:
    """Return how long planning takes on unequal devices, links of 200 Mbit/s and 2 ms."""
    asked = PlanOptions(objective=objective, most_s=inf, in_flight=_in_flight(objective))
    rows = []
    for name, count, most_s in TIMED:
        graph = load_graph(find_model(name), name=name)
        slow_downs = tuple((4.0, 8.0, 12.0, 16.0)[n % 4] for n in range(count))
        case = Case("", slow_downs, 25e6, 2e-3, 4_000_000_000, len(AXES) - 1)
        cost = CostModel(graph, case.cluster(), profiles=laptop_profile(graph))
        began_s = time.process_time()
        found = find_plan(cost, options=asked)
        took_s = time.process_time() - began_s
        say(f"{name}, {count} devices: {_value_s(found, objective) * 1e3:.2f} ms, {took_s:.1f} s")
        met = took_s <= most_s
        title = f"plan {name} on {count} devices, {objective}"
        rows.append(Row(title, "s", took_s, None, None, f"<= {most_s:g} s", met))
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--chains", type=int, default=25)
    parser.add_argument("--first", type=int, default=0, help="the first chain's seed")
    parser.add_argument("--steps", type=int, default=4, help="changes per chain")
    parser.add_argument("--objective", choices=("latency", "throughput"), default="latency")
    parser.add_argument("--times", action="store_true", help="only how long planning takes")
    args = parser.parse_args()
    chains = range(args.first, args.first + args.chains)
    rows = (
        time_rows(args.objective) if args.times else nested_rows(chains, args.steps, args.objective)
    )
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
