"""The backend tests of the installed ``onnx``, divided in every way, against ONNX Runtime.

Each model that ONNX Runtime can run on the inputs that come with it is read, divided along five
axes, planned by ``cut`` and ``equal_rows``, divided by drawn plans, and written as a bundle; every
answer is compared with ONNX Runtime's for the model as it is. What is refused must be so in one
line that is known to be true of the model. The others are read all the same: none may crash.

Models whose weights would have to be downloaded are left out; ``benchmarks.exactness`` has the
same architectures. ``--data`` adds the ``backend/test/data`` of other versions of the package.

    python -m benchmarks.backend [--only TEXT] [--data FOLDER...] [--list] [--json]
"""

from __future__ import annotations

import copy
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tests.laws.random_plans import draw_cluster, draw_plan
from tests.models import run_model

from benchmarks.backend_cases import Arrays, Case, free_shapes, is_true_line, load_cases
from benchmarks.harness import Row, make_parser, report, say
from benchmarks.uniform import UNIFORM_AXES, UniformOptions, plan_uniform
from partita.cluster import Cluster, Device
from partita.compile import check_plan, compile_plan
from partita.cost import CostModel
from partita.errors import PartitaError, first_line
from partita.exactness.compare import difference_of, tolerance_of
from partita.exactness.interpret import run_program
from partita.graph import Graph, load_graph
from partita.loading import Division, load_bundle, write_bundle
from partita.plan import Plan, SplitAxis
from partita.planners import PlanOptions, find_plan
from partita.program.check import check_program

Array = npt.NDArray[Any]
Verdict = Literal["exact", "refused", "skipped", "wrong", "crashed", "unclear"]

#: In the order of the table; of several ways the worst counts, which is the last.
VERDICTS: tuple[Verdict, ...] = ("skipped", "exact", "refused", "unclear", "wrong", "crashed")
PLANNERS = ("cut", "equal_rows")
SHARES = (1.0, 3.0, 2.0)
#: Plans drawn per model.
DRAWN = 2
#: Least share of exact answers among the models with float inputs that ONNX Runtime runs.
LEAST_EXACT = 0.85


@dataclass(frozen=True)
class Outcome:
    """What became of a case; ``reason`` is empty where all answers are exact."""

    case: str
    is_float: bool
    verdict: Verdict
    reason: str = ""


def examine(case: Case) -> Outcome:
    """What becomes of a case, by the worst of all ways."""
    outcome = partial(Outcome, case.name, case.is_float)
    try:
        expected = run_model(case.model, copy.deepcopy(dict(case.feeds)))
    except Exception as error:
        return outcome(*examine_unread(case, first_line(error)))
    whole = dict(zip((value.name for value in case.model.graph.output), expected, strict=True))
    worst = outcome("exact")
    for way, answer in list_ways(case):
        try:
            verdict, reason = judge(case, whole, *answer())
        except PartitaError as error:
            is_true = is_true_line(case, whole, error.message)
            verdict, reason = "refused" if is_true else "unclear", error.message
        except Exception as error:
            verdict, reason = "crashed", f"{type(error).__name__}: {error}"
        if VERDICTS.index(verdict) > VERDICTS.index(worst.verdict):
            worst = outcome(verdict, f"{way}: {reason}")
        if way == "read" and verdict != "exact":
            break
    return worst


def examine_unread(case: Case, why: str) -> tuple[Verdict, str]:
    """What becomes of a model that ONNX Runtime cannot run: read, or refused in one line."""
    try:
        read_graph(case)
    except PartitaError as error:
        if "\n" in error.message:
            return "unclear", f"read: {error.message}"
    except Exception as error:
        return "crashed", f"read: {type(error).__name__}: {error}"
    return "skipped", why


def read_graph(case: Case) -> Graph:
    return load_graph(copy.deepcopy(case.model), shapes=free_shapes(case))


Answer = tuple[Graph, Arrays, Arrays | None]


def list_ways(case: Case) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Yield the name of each way and what answers by it; the first reads the model alone."""
    feeds, graphs = case.feeds, list[Graph]()

    def read() -> Answer:
        graphs.append(read_graph(case))
        return graphs[0], feeds, None

    yield "read", read
    graph = graphs[0]
    cluster = Cluster.of([f"d{number}" for number in range(len(SHARES))])
    for axis in UNIFORM_AXES:
        yield axis, partial(answer_uniformly, graph, feeds, cluster, axis)
    for planner in PLANNERS:
        yield planner, partial(answer_planned, graph, feeds, planner)
    for seed in range(DRAWN):
        yield f"drawn {seed}", partial(answer_drawn, graph, feeds, seed)
    yield "bundle", partial(answer_bundle, graph, feeds)


def answer_plan(graph: Graph, feeds: Arrays, plan: Plan, cluster: Cluster) -> Answer:
    check_plan(graph, plan, cluster)
    compiled = compile_plan(graph, plan, cluster)
    faults = check_program(compiled.program)
    if faults:
        raise AssertionError(faults[0])
    given = {name: array.copy() for name, array in feeds.items()}
    answer, _ = run_program(compiled, given)
    return graph, given, answer


def answer_uniformly(graph: Graph, feeds: Arrays, cluster: Cluster, axis: SplitAxis) -> Answer:
    return answer_plan(
        graph, feeds, plan_uniform(graph, cluster, UniformOptions(axis, SHARES)), cluster
    )


def answer_planned(graph: Graph, feeds: Arrays, planner: str) -> Answer:
    devices = [Device(f"d{n}", kind="raspberry-pi-4") for n in range(3)]
    # Fast enough for small layers to be worth sending.
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=1e10, latency_s=0.0)
    result = find_plan(CostModel(graph, cluster), planner=planner, options=PlanOptions())
    return answer_plan(graph, feeds, result.plan, cluster)


def answer_drawn(graph: Graph, feeds: Arrays, seed: int) -> Answer:
    rng = Random(seed)
    cluster = draw_cluster(rng)
    return answer_plan(graph, feeds, draw_plan(rng, graph, cluster), cluster)


def answer_bundle(graph: Graph, feeds: Arrays) -> Answer:
    count = len(graph.layers)
    ends = tuple(sorted({(count + 1) // 2, count}))
    given = {name: array.copy() for name, array in feeds.items()}
    with tempfile.TemporaryDirectory(prefix="partita-backend-") as folder:
        write_bundle(graph, [Division("two", ends)], Path(folder, "bundle"))
        with load_bundle(Path(folder, "bundle"), read_ahead=False) as session:
            outputs = session.run(None, given)
    return graph, given, dict(zip(graph.outputs, outputs, strict=True))


def judge(
    case: Case,
    whole: Arrays,
    graph: Graph,
    given: Arrays,
    answer: Arrays | None,
) -> tuple[Verdict, str]:
    """Whether an answer is the engine's own, and the inputs are what they were."""
    if answer is None:
        return "exact", ""
    for name, array in case.feeds.items():
        if not is_equal(given[name], array):
            return "wrong", f"input '{name}' was overwritten"
    for name, expected in whole.items():
        got = np.asarray(answer[name])
        if (got.shape, got.dtype) != (expected.shape, expected.dtype):
            kinds = f"{got.dtype}{list(got.shape)}, not {expected.dtype}{list(expected.shape)}"
            return "wrong", f"output '{name}' is {kinds}"
        if is_equal(got, expected):
            continue
        if not np.issubdtype(expected.dtype, np.floating) and expected.dtype.kind not in "Vc":
            return "wrong", f"output '{name}' has other values"
        off = difference_of(name, got, expected).relative
        if off > tolerance_of(graph):
            return "wrong", f"output '{name}' is off by {off:.1e}"
    return "exact", ""


def is_equal(left: Array, right: Array) -> bool:
    if left.dtype == object:
        return bool(left.tolist() == right.tolist())
    return left.shape == right.shape and left.tobytes() == right.tobytes()


def make_rows(outcomes: list[Outcome]) -> list[Row]:
    rows = []
    for is_float in (True, False):
        name = "float inputs" if is_float else "other inputs"
        counts = Counter(o.verdict for o in outcomes if o.is_float == is_float)
        total = sum(counts.values()) - counts["skipped"]
        if not total:
            continue
        for verdict in ("crashed", "wrong", "unclear"):
            met = counts[verdict] == 0
            rows.append(Row(f"{name}, {verdict}", "tests", counts[verdict], total, None, "0", met))
        share = counts["exact"] / total
        target = f">= {LEAST_EXACT:.0%}" if is_float else ""
        is_met = share >= LEAST_EXACT if is_float else None
        rows.append(Row(f"{name}, exact", "tests", counts["exact"], total, share, target, is_met))
        rows.append(Row(f"{name}, refused", "tests", counts["refused"], total, None, "", None))
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--only", default="", help="part of the names of tests")
    parser.add_argument("--data", nargs="+", type=Path, default=(), help="of other versions")
    parser.add_argument("--list", action="store_true", help="say what is not exact")
    args = parser.parse_args()
    outcomes = [examine(case) for case in load_cases(args.only, args.data)]
    if args.list:
        for outcome in sorted(outcomes, key=lambda o: (VERDICTS.index(o.verdict), o.reason)):
            if outcome.verdict != "exact":
                mark = "float" if outcome.is_float else "other"
                say(f"{outcome.verdict:8} {mark} {outcome.case}: {outcome.reason}")
    skipped = sum(outcome.verdict == "skipped" for outcome in outcomes)
    notes = {"tests": len(outcomes), "that ONNX Runtime cannot run": skipped}
    return report(make_rows(outcomes), as_json=args.json, notes=notes)


if __name__ == "__main__":
    sys.exit(main())
