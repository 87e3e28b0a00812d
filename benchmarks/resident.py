"""Memory that workers hold for a plan, beside what is predicted.

Real networks cut into ranges among worker processes of a lab, with no more memory than they need,
and in many stages. Measured is what a worker holds privately beyond what it held when it was idle,
after some runs.

    python -m benchmarks.resident [--json]
"""

from __future__ import annotations

import statistics
import sys
from itertools import pairwise

import numpy as np

from benchmarks.harness import Row, make_parser, report, say
from benchmarks.memory_fit import fleet
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.graph import Graph, load_graph
from partita.lab import LabOptions, start_lab
from partita.leader import deploy
from partita.planners import DraftStage, Evaluator, PlanOptions
from partita.planners.drafts.draft import Draft
from partita.zoo import build_model

MODELS = ("mobilenet_v2", "resnet50")
DEVICES = (2, 3, 4)
#: Stages of each plan, by turns on the devices.
STAGES = {"ranges": 1, "many stages": 4}
RUNS = 5
#: A prediction may be off by this part, or by so many bytes.
MOST_OFF, MOST_OFF_BYTES = 0.10, 5e6


def cut_evenly(evaluator: Evaluator, stages: int) -> Draft:
    """Return ranges of about as many weights, whole on the devices by turns."""
    outline, devices = evaluator.outline, evaluator.devices
    sizes = [outline.graph.layer(name).weight_bytes for name in outline.order]
    reached = np.cumsum(sizes) / sum(sizes)
    inner = {int(np.searchsorted(reached, part / stages)) + 1 for part in range(1, stages)}
    places = sorted({0, *inner, len(outline)})
    return tuple(
        DraftStage(start, stop, "none", (devices[turn % len(devices)],))
        for turn, (start, stop) in enumerate(pairwise(places))
    )


def compare(graph: Graph, devices: int, stages: int) -> list[tuple[float, float]]:
    """Return the predicted and the held bytes of each device."""
    cluster = fleet([4 * 10**9] * devices)
    evaluator = Evaluator(CostModel(graph, cluster), PlanOptions())
    plan = evaluator.problem.plan(cut_evenly(evaluator, stages))
    predicted = evaluator.evaluate(plan).memory_bytes
    given = {name: np.zeros(graph.tensors[name].shape, np.float32) for name in graph.inputs}
    with (
        start_lab(cluster, LabOptions(shaped=False)) as lab,
        deploy(compile_plan(graph, plan, cluster), lab.endpoint) as session,
    ):
        session.run([given] * RUNS)
        held = {name: stats.resident_bytes for name, stats in session.stats().items()}
    return [(predicted[name], held[name]) for name in predicted]


def main() -> int:
    args = make_parser(__doc__).parse_args()
    rows = []
    for model in MODELS:
        graph = load_graph(build_model(model), name=model)
        for name, each in STAGES.items():
            pairs = [pair for count in DEVICES for pair in compare(graph, count, each * count)]
            off = [abs(a - b) / max(MOST_OFF * b, MOST_OFF_BYTES) for a, b in pairs]
            for predicted, held in pairs:
                say(f"{model}, {name}: {predicted / 1e6:.1f} MB predicted, {held / 1e6:.1f} held")
            ratio = statistics.median(a / b for a, b in pairs)
            worst, means = max(off), [sum(side) / len(pairs) for side in zip(*pairs, strict=True)]
            rows.append(
                Row(
                    f"{model}, {name}",
                    "MB",
                    means[0] / 1e6,
                    means[1] / 1e6,
                    ratio,
                    "each within 10 % or 5 MB",
                    worst <= 1,
                )
            )
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
