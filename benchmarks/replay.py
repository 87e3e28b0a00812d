"""The plans and prices of all planners on fixed inputs: what a change of structure must not change.

Real networks with catalogue prices and small ones with prices by hand, on links that are equal,
unequal, shared, missing, changing or behind ports, for all objectives and options. Every search
ends by its number of evaluations, never by the clock. Run it before and after, then compare:

    python -m benchmarks.replay write before.json
    python -m benchmarks.replay diff before.json after.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from tests.planners.fakes import make_chain, make_cost, make_residual

from benchmarks.harness import find_model, say
from partita.cluster import Cluster, Device, Link, load_cluster
from partita.cost import CostModel
from partita.errors import PartitaError
from partita.graph import Graph, load_graph
from partita.planners import PlanOptions, find_plan, get_planner, planner_names
from partita.scenarios import find_scenario

MODELS = ("vgg16", "resnet50", "mobilenet_v2", "squeezenet", "inception_v3")
KINDS = ("raspberry-pi-4", "jetson-nano", "laptop", "raspberry-pi-3", "jetson-xavier", "phone")
#: Long enough for every search to end by its evaluations.
BUDGET_S = 1e6
#: What training methods may take: two short runs tell whether they still do the same.
TRAINING = {"distredge.episodes": "4", "distredge.decisions": "5"}


@dataclass(frozen=True)
class Case:
    """One question to the planners.

    Attributes:
        planners: Those that are asked.
    """

    name: str
    cost: Any
    options: PlanOptions
    planners: tuple[str, ...]


def mixed_cluster(count: int, bandwidth: float = 25e6, **link: Any) -> Cluster:
    """Return ``count`` devices of different kinds, each linked with each."""
    devices = [
        Device(f"d{n}", kind=KINDS[n % len(KINDS)], memory_bytes=2_000_000_000)
        for n in range(count)
    ]
    links = [
        Link(a.name, b.name, bandwidth, 2e-3, 1e-3, **link)
        for a in devices
        for b in devices
        if a is not b
    ]
    return Cluster.of(devices, links=links)


def quick(**options: Any) -> PlanOptions:
    """Return options of a search that ends soon, whatever the machine."""
    return PlanOptions(**{"most_s": BUDGET_S, "max_evaluations": 250, **options})


def quick_planners() -> tuple[str, ...]:
    """Return the names of all planners that do not train."""
    return tuple(name for name in planner_names() if get_planner(name).cost != "training")


def small_cases() -> Iterator[Case]:
    """Yield chains and residual networks with prices by hand."""
    asked = quick_planners()
    for seed in range(10):
        graph = make_residual(seed) if seed % 3 == 2 else make_chain(2 + seed % 3, seed=seed)
        rates = [1e6 * (1 + (seed * 7 + k * 5) % 9) for k in range(2 + seed % 2)]
        cost = make_cost(graph, *rates, bandwidth=(1e5, 1e6, 1e7, 1e8)[seed % 4], overhead_s=1e-5)
        few = tuple(n for n in asked if n != "exhaustive" or seed in (0, 6))
        for objective in ("latency", ("throughput", "memory", "energy")[seed % 3]):
            in_flight = 1 if objective == "latency" else 1 + seed % 4
            options = quick(objective=objective, in_flight=in_flight)
            yield Case(f"small-{seed}-{objective}", cost, options, few)


def real_cases() -> Iterator[Case]:
    """Yield real networks with prices of the catalogue."""
    asked = tuple(name for name in quick_planners() if name != "exhaustive")
    searches = ("best", "cut", "proportional_rows")
    for number, model in enumerate(MODELS):
        graph = load_graph(find_model(model), name=model)
        for count in (2, 4):
            cost = CostModel(graph, mixed_cluster(count))
            yield Case(f"{model}-{count}", cost, quick(), asked)
        cost = CostModel(graph, mixed_cluster(3))
        for name, options in option_sets(graph).items():
            yield Case(f"{model}-{name}", cost, options, searches)
        for name, cluster in odd_clusters(number).items():
            yield Case(f"{model}-{name}", CostModel(graph, cluster), quick(), searches)


def option_sets(graph: Graph) -> dict[str, PlanOptions]:
    """Return options that each turn one thing on."""
    first = graph.layers[len(graph.layers) // 3].outputs[0]
    return {
        "throughput": quick(objective="throughput", in_flight=4),
        "memory": quick(objective="memory", max_evaluations=60),
        "energy": quick(objective="energy"),
        "rows": quick(axes=("rows",)),
        "tiles": quick(axes=("tiles",)),
        "channels": quick(axes=("output_channels",)),
        "float16": quick(compress="float16"),
        "uint4": quick(wires={first: "uint4"}),
        "kept": quick(keep_on={graph.inputs[0]: "d0"}),
        "limit": quick(energy_limits={"d2": 1.0}),
        "pair": quick(devices=("d1", "d2")),
    }


def odd_clusters(number: int) -> dict[str, Cluster]:
    """Return clusters whose links are shared, missing, slow or change."""
    whole = mixed_cluster(4)
    missing = [link for link in whole.links if {link.source, link.target} != {"d1", "d2"}]
    uneven = [
        Link(one.source, one.target, one.bandwidth_bytes_per_s / (1 + at % 5), 1e-3 * (at % 3))
        for at, one in enumerate(whole.links)
    ]
    group = ("DA-50", "DB-300", "DC-50", "NB-nano", "LA")[number]
    return {
        "radio": mixed_cluster(3, medium="air"),
        "ports": Cluster.of(
            [replace(device, port_bytes_per_s=12e6) for device in whole.devices[:3]]
            + list(whole.devices[3:]),
            links=uneven,
        ),
        "missing": Cluster.of(list(whole.devices), links=missing),
        "uneven": Cluster.of(list(whole.devices), links=uneven),
        group: load_cluster(find_scenario(group)),
        "changing": mixed_cluster(3, trace=((0.0, 25e6), (0.05, 5e6), (0.4, 40e6))),
    }


def training_cases() -> Iterator[Case]:
    """Yield what the method that learns is asked: short runs with two seeds."""
    graph = load_graph(find_model("vgg16"), name="vgg16")
    cost = CostModel(graph, load_cluster(find_scenario("DB-50")))
    for seed in (0, 1):
        options = PlanOptions(most_s=BUDGET_S, seed=seed, method=TRAINING)
        yield Case(f"training-{seed}", cost, options, ("distredge",))


def answer(case: Case, planner: str) -> dict[str, Any]:
    """Return what a planner says: a digest of its stages and wires, and the price."""
    try:
        found = find_plan(case.cost, planner=planner, options=case.options)
    except PartitaError as error:
        return {"error": str(error)}
    stages = msgspec.json.encode((found.plan.stages, found.plan.wires))
    estimate = msgspec.to_builtins(found.estimate)
    return {
        "stages": hashlib.sha256(stages).hexdigest()[:16],
        "estimate": json.loads(json.dumps(estimate)),
        "bound_s": found.lower_bound_s,
        "status": found.status,
        "worth": found.worth_splitting,
        "single_s": found.best_single_s,
    }


def collect(only: str) -> dict[str, dict[str, Any]]:
    """Return all answers by case and planner."""
    answers = {}
    for cases in (small_cases(), real_cases(), training_cases()):
        for case in cases:
            if only not in case.name:
                continue
            began_s = time.process_time()
            for planner in case.planners:
                answers[f"{case.name} {planner}"] = answer(case, planner)
            say(f"{case.name}: {time.process_time() - began_s:.1f} s")
    return answers


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Yield a line per answer that is not the same to the last digit."""
    for name in sorted({*before, *after}):
        old, new = before.get(name, {}), after.get(name, {})
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield f"{name}: {key} {old.get(key)} -> {new.get(key)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    write = verbs.add_parser("write")
    write.add_argument("file", type=Path)
    write.add_argument("--only", default="", help="cases whose names contain this")
    diff = verbs.add_parser("diff")
    diff.add_argument("before", type=Path)
    diff.add_argument("after", type=Path)
    args = parser.parse_args()
    if args.verb == "write":
        answers = collect(args.only)
        args.file.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")
        say(f"{len(answers)} answers written to {args.file}")
        return 0
    before, after = (json.loads(path.read_text()) for path in (args.before, args.after))
    lines = list(differences(before, after))
    print("\n".join(lines) or f"{len(after)} answers, all the same")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
