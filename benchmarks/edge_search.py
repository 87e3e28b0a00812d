"""How long AUTO-SPLIT's search takes for a network, on one core.

ResNet-50 between the camera and the server of the AUTO-SPLIT paper's simulation (Eyeriss and TPU),
weights and pictures drawn from a seed. What samples say, ranges and error tables, is found first
and then taken as it was kept; judging, which runs the network, is timed apart from the search.
Times are of the processor: other processes do not count.

python -m benchmarks.edge_search [--model resnet50] [--samples 64] [--judged 4]
                                 [--rate "3 Mbit/s"] [--json]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.choices import CLUSTER, draw_pictures
from benchmarks.harness import Row, at_most, make_parser, report, say
from partita.cluster import load_cluster
from partita.cost import CostModel
from partita.exactness.accuracy import Scores
from partita.exactness.judges import DataJudge, choose_rule
from partita.graph import load_graph
from partita.plan import Plan
from partita.planners import PlanOptions, Result, find_plan
from partita.quantisation import find_data
from partita.quantisation.samples import Sample
from partita.zoo import build_model

#: Most seconds of the search alone, and with what samples say.
MOST_SEARCH_S, MOST_ALL_S = 10.0, 300.0
DROP = 0.01

T = TypeVar("T")


@dataclass
class Clock:
    """Seconds of this process's threads, added up."""

    seconds: float = 0.0

    def run(self, work: Callable[[], T]) -> T:
        """Do some work and add what it took."""
        start_s = time.process_time()
        try:
            return work()
        finally:
            self.seconds += time.process_time() - start_s


class TimedJudge:
    """A judge whose own time is known.

    Attributes:
        clock: Of all judgements.
        count: How many there were.
    """

    def __init__(self, judge: DataJudge) -> None:
        self.clock, self.count = Clock(), 0
        self._judge = judge

    def __call__(self, plan: Plan) -> Scores:
        """The judge's scores of a plan."""
        self.count += 1
        return self.clock.run(lambda: self._judge(plan))


def read_pictures(folder: Path, name: str, first: int, count: int) -> list[Sample]:
    """Return some of the drawn pictures as samples."""
    files = [folder / f"{number}.npy" for number in range(first, first + count)]
    return [Sample({name: np.load(path)}, path) for path in files]


def search(args: argparse.Namespace, folder: Path) -> tuple[Clock, Clock, TimedJudge, Result]:
    """Return what finding tables took, what the search took, who judged, and the plan."""
    graph = load_graph(build_model(args.model), name=args.model)
    (spec,) = graph.input_specs
    draw_pictures(folder / "pictures", args.samples + args.judged, spec.shape[-1])
    (folder / "gate.toml").write_text(CLUSTER.format(rate=args.rate))
    samples = read_pictures(folder / "pictures", spec.name, 0, args.samples)
    say("ranges and error tables")
    tables = Clock()
    tables.run(lambda: find_data(graph, samples, folder / "tables"))
    apart = read_pictures(folder / "pictures", spec.name, args.samples, args.judged)
    cluster = load_cluster(folder / "gate.toml")
    cost = CostModel(graph, cluster)
    judge = TimedJudge(DataJudge(graph, apart, choose_rule(graph, apart, "signal")[1], cluster))

    def plan() -> Result:
        data = find_data(graph, samples, folder / "tables")
        options = PlanOptions(quantisation=data, judge=judge, accuracy_drop=DROP)
        return find_plan(cost, planner="autosplit", options=options)

    say("search")
    whole = Clock()
    result = whole.run(plan)
    return tables, Clock(whole.seconds - judge.clock.seconds), judge, result


def main() -> int:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--judged", type=int, default=4)
    parser.add_argument("--rate", default="3 Mbit/s")
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as name:
        tables, searched, judge, result = search(args, Path(name))
    say(f"{result.plan.planner}: {1e3 * result.latency_s:.1f} ms, {len(result.trade_offs)} choices")
    case, both_s = f"{args.model}, {args.rate}", tables.seconds + searched.seconds
    judged = f"{case}: judging {judge.count} plans on {args.judged} pictures"
    rows = [
        at_most(f"{case}: search from what is known", "s", searched.seconds, MOST_SEARCH_S),
        at_most(f"{case}: with ranges and errors, {args.samples} samples", "s", both_s, MOST_ALL_S),
        Row(judged, "s", judge.clock.seconds, None, None, "", None),
    ]
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    raise SystemExit(main())
