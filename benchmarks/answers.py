"""The leader's memory over many answers of 1 MiB: handed out, and kept as ``run --check`` does.

    python -m benchmarks.answers [--requests 10000] [--kept 1000] [--json]

A worker process on this machine answers; the memory that is shared with it does not count.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper, numpy_helper

from benchmarks.harness import at_most, make_parser, report, whole_plan
from partita.cli.answers import KeptAnswers
from partita.cluster import Cluster
from partita.compile import compile_plan
from partita.graph import load_graph
from partita.lab import LabOptions, start_lab
from partita.leader import Session, deploy

ITEMS = 2**18
MOST_GROWTH_MB = 20.0
#: Answers until the allocator has what it needs.
_WARM = 50


def make_model() -> onnx.ModelProto:
    """One number times a row of 1 MiB."""
    row = numpy_helper.from_array(np.ones((1, ITEMS), np.float32), "w")
    given, got = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, items])
        for name, items in (("x", 1), ("y", ITEMS))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "answers", [given], [got], [row])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def own_mb() -> float:
    """Memory of this process that is not shared, in MB."""
    memory = psutil.Process().memory_info()
    return float(memory.rss - memory.shared) / 1e6


def measure_growth(session: Session, requests: int, kept: KeptAnswers | None) -> float:
    """The most MB that the leader grew by over some requests, and over their report."""
    feeds = {"x": np.ones((1, 1), np.float32)}
    start_mb = most_mb = 0.0
    for number, answer in enumerate(session.iterate(feeds for _ in range(_WARM + requests))):
        if kept is not None:
            kept.append(answer)
        if number == _WARM:
            start_mb = own_mb()
        most_mb = max(most_mb, own_mb() if number % 10 == 0 else 0.0)
    session.report()
    return max(most_mb, own_mb()) - start_mb


def main() -> int:
    """Run, and compare with the target."""
    parser = make_parser(__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kept", type=int, default=1_000, help="each takes 1 MiB of disk")
    arguments = parser.parse_args()
    graph = load_graph(make_model())
    cluster = Cluster.of(["d0"])
    compiled = compile_plan(graph, whole_plan(graph, cluster, "d0"), cluster)
    with (
        tempfile.TemporaryDirectory() as store,
        start_lab(cluster, LabOptions(store=Path(store))) as lab,
        deploy(compiled, lab.endpoint) as session,
        KeptAnswers() as kept,
    ):
        growth_mb = {
            f"{arguments.requests} answers of 1 MiB": measure_growth(
                session, arguments.requests, None
            ),
            f"{arguments.kept} answers, kept": measure_growth(session, arguments.kept, kept),
        }
    rows = [at_most(case, "MB", grown, MOST_GROWTH_MB) for case, grown in growth_mb.items()]
    return report(rows, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
