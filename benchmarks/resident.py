"""Memory that workers hold for a plan, beside what is predicted.

Real networks, divided in every way among worker processes of a lab, one request and several in
flight. Measured is what a worker holds privately beyond what it held when it was idle, after some
runs.

Then the rule's constants are fitted anew without half of the networks, by which they are judged: so
much of its accuracy is not the fit's.

    python -m benchmarks.resident [--models mobilenet_v2 ...] [--json]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import nnls

from benchmarks.harness import Row, make_parser, report, say
from benchmarks.memory_fit import fleet
from partita.compile import compile_plan
from partita.cost import CostModel, MemoryUse
from partita.cost.memory import PROCESS_BYTES, SESSION_BYTES
from partita.graph import Graph, load_graph
from partita.lab import LabOptions, start_lab
from partita.leader import deploy
from partita.plan import Plan
from partita.planners import DraftStage, Evaluator, PlanOptions, find_plan
from partita.planners.drafts.draft import Draft, share_cuts
from partita.planners.drafts.row_division import shrink_positions
from partita.zoo import build_model

MODELS = ("mobilenet_v2", "squeezenet", "resnet50", "vgg16")
RUNS = 5
#: A prediction may be off by this part, or by so many bytes.
MOST_OFF, MOST_OFF_BYTES = 0.10, 5e6
#: What is predicted of a worker, and the bytes that it held.
Pair = tuple[MemoryUse, int]


@dataclass(frozen=True)
class Case:
    """A plan of a network for some devices."""

    name: str
    devices: int
    make: Callable[[Evaluator], Plan]
    in_flight: int = 1


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


def ranges(stages: int) -> Callable[[Evaluator], Plan]:
    """Return what cuts a network into so many ranges."""
    return lambda evaluator: evaluator.problem.plan(cut_evenly(evaluator, stages))


def channels(evaluator: Evaluator) -> Plan:
    """Return each layer divided evenly by output channels, where it can be."""
    outline, devices = evaluator.outline, tuple(evaluator.devices)
    stages: list[DraftStage] = []
    for at in range(len(outline)):
        count = outline.channels(at, at + 1)
        if count < len(devices):
            stages.append(DraftStage(at, at + 1, "none", devices[:1]))
            continue
        cuts = tuple(count * part // len(devices) for part in range(len(devices) + 1))
        stages.append(DraftStage(at, at + 1, "output_channels", devices, cuts))
    return evaluator.problem.plan(tuple(stages))


def edges(evaluator: Evaluator) -> Plan:
    """Return rows whose edges are parts of their own: three on a device read the same weights."""
    outline, devices = evaluator.outline, tuple(evaluator.devices)
    start, stop = outline.row_runs()[0]
    stages: list[DraftStage] = []
    for low, high in pairwise((start, *shrink_positions(outline, start, stop), stop)):
        rows = outline.rows(low, high)
        if rows < 2 * len(devices):
            break
        cuts = share_cuts([1.0] * len(devices), rows)
        stages.append(DraftStage(low, high, "rows", devices, cuts, edge=1))
    end = stages[-1].stop if stages else 0
    rest = DraftStage(end, len(outline), "none", devices[:1])
    return evaluator.problem.plan((*stages, rest) if end < len(outline) else tuple(stages))


def search(planner: str) -> Callable[[Evaluator], Plan]:
    """Return what a planner finds."""

    def make(evaluator: Evaluator) -> Plan:
        cost, given = evaluator.problem.cost, evaluator.options
        assert isinstance(cost, CostModel)
        options = PlanOptions(in_flight=given.in_flight, most_s=3)
        return find_plan(cost, planner=planner, options=options).plan

    return make


CASES = (
    Case("whole", 1, ranges(1)),
    Case("whole, 4 in flight", 1, ranges(1), 4),
    Case("ranges on 2", 2, ranges(2)),
    Case("ranges on 3, 4 in flight", 3, ranges(3), 4),
    Case("8 ranges on 2", 2, ranges(8)),
    Case("16 ranges on 4", 4, ranges(16)),
    Case("rows on 3", 3, search("equal_rows")),
    Case("rows on 3, 4 in flight", 3, search("equal_rows"), 4),
    Case("rows and their edges on 3", 3, edges),
    Case("tiles on 4", 4, search("deepthings")),
    Case("channels on 3", 3, channels),
    Case("best on 3", 3, search("best")),
)


def compare(graph: Graph, case: Case) -> list[Pair]:
    """Return the predicted memory and the held bytes of each device."""
    cluster = fleet([4 * 10**9] * case.devices)
    cost = CostModel(graph, cluster)
    plan = case.make(Evaluator(cost, PlanOptions(in_flight=case.in_flight)))
    predicted = cost.memory(cost.layout(plan))
    given = {name: np.zeros(graph.tensors[name].shape, np.float32) for name in graph.inputs}
    with (
        start_lab(cluster, LabOptions(shaped=False)) as lab,
        deploy(compile_plan(graph, plan, cluster), lab.endpoint) as session,
    ):
        session.run([given] * RUNS * case.in_flight)
        held = {name: stats.resident_bytes for name, stats in session.stats().items()}
    return [(predicted[name], held[name]) for name in predicted]


def row_of(case: str, pairs: Sequence[tuple[float, int]], target: str) -> Row:
    """Return the row of some predictions: means, the median ratio, and whether all are near."""
    means = [sum(side) / len(pairs) for side in zip(*pairs, strict=True)]
    ratio = statistics.median(a / b for a, b in pairs)
    is_met = max(map(strays, pairs)) <= 1
    return Row(case, "MB", means[0] / 1e6, means[1] / 1e6, ratio, target, is_met)


def strays(pair: tuple[float, int]) -> float:
    """Return how far a prediction is off, over how far it may be."""
    predicted, held = pair
    return abs(predicted - held) / max(MOST_OFF * held, MOST_OFF_BYTES)


def fit(pairs: Sequence[Pair]) -> list[float]:
    """Return what process, session and arena take over what the rule says, as workers show."""
    terms = [[PROCESS_BYTES, SESSION_BYTES * use.fragments, use.arena] for use, _ in pairs]
    rest = [held - use.weights - use.pieces for use, held in pairs]
    scale = np.array([max(MOST_OFF * held, MOST_OFF_BYTES) for _, held in pairs])
    found: list[float] = nnls(np.array(terms) / scale[:, None], np.array(rest) / scale)[0].tolist()
    return found


def held_out(known: Mapping[str, Sequence[Pair]]) -> Row:
    """Return how near a rule is to networks that it was not fitted on: each half by the other."""
    models, judged = list(known), list[tuple[float, int]]()
    for half in (models[::2], models[1::2]):
        factors = fit([pair for model in models if model not in half for pair in known[model]])
        for use, held in (pair for model in half for pair in known[model]):
            parts = (PROCESS_BYTES, SESSION_BYTES * use.fragments, use.arena)
            total = use.weights + use.pieces + float(np.dot(factors, parts))
            judged.append((total, held))
        shares = ", ".join(f"{factor:.2f}" for factor in factors)
        say(f"without {', '.join(half)}: {shares} of the rule's constants")
    close = sum(strays(pair) <= 1 for pair in judged)
    return row_of("networks held out", judged, f"{close} of {len(judged)} within 10 % or 5 MB")


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--models", nargs="+", default=MODELS)
    args = parser.parse_args()
    known: dict[str, list[Pair]] = {}
    for model in args.models:
        graph = load_graph(build_model(model), name=model)
        known[model] = []
        for case in CASES:
            for use, held in compare(graph, case):
                known[model].append((use, held))
                say(
                    f"{model}, {case.name}: {use.total / 1e6:.1f} MB predicted, "
                    f"{held / 1e6:.1f} held, {use.total / held:.2f}"
                )
    rows = [
        row_of(model, [(use.total, held) for use, held in pairs], "each within 10 % or 5 MB")
        for model, pairs in known.items()
    ]
    if len(known) > 1:
        rows.append(held_out(known))
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
