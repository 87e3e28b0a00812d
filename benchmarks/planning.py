"""How long inspecting and planning take, and how far bounds and plans are from the optimum.

python -m benchmarks.planning [--rounds 3] [--cases 30] [--json]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

import onnx
from tests.planners.fakes import FakeCost, make_chain, make_cost, make_residual

from benchmarks.harness import Row, find_model, make_parser, partita, report, say, time_process
from partita.cluster import load_cluster
from partita.cost import CostModel
from partita.graph import load_graph
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.search.exhaustive import Space

MOST_INSPECT_S, MOST_PLAN_S, MOST_GAP = 3.0, 5.0, 0.30
#: Plans of a case that all are tried.
MOST_SPACE = 5000
CLUSTER = """\
[cluster]
name = "four"
requester = "pi-3"

[[device]]
name = "pi-3"
kind = "raspberry-pi-3"

[[device]]
name = "pi-4"
kind = "raspberry-pi-4"

[[device]]
name = "nano"
kind = "jetson-nano"

[[device]]
name = "laptop"
kind = "laptop"

[[link]]
between = ["*", "*"]
bandwidth = "200 Mbit/s"
latency = "2 ms"
"""
#: The peer of ``inspect``: read the file and infer shapes, which everybody must do.
READ = "import sys, onnx; onnx.shape_inference.infer_shapes(onnx.load(sys.argv[1]), data_prop=True)"


def inspect_row(folder: Path, rounds: int) -> Row:
    path = str(folder / "densenet121.onnx")
    onnx.save(find_model("light_densenet121"), path)
    ours = time_process(partita("inspect", path), rounds=rounds)
    peer = time_process([sys.executable, "-c", READ, path], rounds=rounds)
    met = ours <= MOST_INSPECT_S
    return Row(
        "inspect DenseNet-121", "s", ours, peer, ours / peer, f"<= {MOST_INSPECT_S:g} s", met
    )


def plan_rows(folder: Path, rounds: int) -> list[Row]:
    path, cluster = folder / "vgg19.onnx", folder / "four.toml"
    cluster.write_text(CLUSTER)
    onnx.save(find_model("vgg19"), str(path))
    cost = CostModel(load_graph(path), load_cluster(cluster))
    inside = []
    for _ in range(rounds):
        start_s = time.perf_counter()
        found = find_plan(cost)
        inside.append(time.perf_counter() - start_s)
    say(f"{found.evaluations} plans priced, {found.status}, {found.latency_s:.3f} s predicted")
    command = partita("plan", str(path), "--cluster", str(cluster), "--json")
    outside = time_process(command, rounds=rounds)
    return [
        Row(name, "s", value, None, None, f"<= {MOST_PLAN_S:g} s", value <= MOST_PLAN_S)
        for name, value in (
            ("plan VGG-19 on 4 devices, in process", statistics.median(inside)),
            ("plan VGG-19 on 4 devices, whole command", outside),
        )
    ]


def small_cases(count: int) -> list[FakeCost]:
    """Return small networks on two or three devices whose speeds come from seeds.

    Those that are too large to try every plan are left out.
    """
    cases: list[FakeCost] = []
    for seed in itertools.count():
        graph = make_residual(seed) if seed % 4 == 3 else make_chain(2 + seed % 3, seed=seed)
        rates = [1e6 * (1 + (seed * 7 + k * 5) % 9) for k in range(3 if seed % 5 == 0 else 2)]
        bandwidth = (1e5, 1e6, 1e7, 1e8)[seed // 2 % 4]
        cost = make_cost(graph, *rates, bandwidth=bandwidth, overhead_s=1e-5)
        if Space(Evaluator(cost, PlanOptions())).count(MOST_SPACE) <= MOST_SPACE:
            cases.append(cost)
        if len(cases) == count:
            break
    return cases


def gap_rows(count: int) -> list[Row]:
    """Return the lower bound's and the best plan's distances from the optimum, medians."""
    below, above, over = [], [], 0
    for cost in small_cases(count):
        optimum = find_plan(cost, planner="exhaustive", options=PlanOptions(most_s=60))
        best = find_plan(cost)
        over += optimum.lower_bound_s > optimum.latency_s * (1 + 1e-9)
        below.append(1 - optimum.lower_bound_s / optimum.latency_s)
        above.append(best.latency_s / optimum.latency_s - 1)
    gap = statistics.median(below)
    target = f"<= {MOST_GAP:.0%}"
    return [
        Row(
            "lower bound below optimum, median", "%", gap * 100, None, None, target, gap <= MOST_GAP
        ),
        Row("lower bounds above optimum", "cases", over, None, None, "0", over == 0),
        Row("best above optimum, worst", "%", max(above) * 100, None, None, "", None),
    ]


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", type=int, default=30, help="small cases for the gap")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [inspect_row(folder, args.rounds), *plan_rows(folder, args.rounds)]
    return report([*rows, *gap_rows(args.cases)], as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
