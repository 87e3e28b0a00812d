"""Memory of worker processes for a plan, whatever they did before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.harness import whole_plan
from onnx import helper
from tests.models import make_model
from tests.worker.tiny import random_inputs, tiny_chain

from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.errors import RunError
from partita.graph import Graph, load_graph
from partita.lab import LabOptions, start_lab
from partita.leader import deploy
from partita.leader.bench import WorkerBench
from partita.leader.worker_group import WorkerGroup
from partita.profile import MeasureOptions, measure_profile

pytestmark = pytest.mark.slow


def make_wide_maps() -> Graph:
    """A network of few weights with tensors of 16 MB."""
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((16, 16, 1, 1), np.float32) for name in ("w1", "w2")}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"]),
        helper.make_node("Conv", ["a", "w2"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["y"]),
    ]
    return load_graph(make_model(nodes, {"x": (1, 16, 512, 512)}, ["y"], weights))


def test_a_plan_is_not_charged_for_a_profile(tmp_path: Path) -> None:
    """A network with tensors of 16 MB was measured; a plan that holds next to nothing follows."""
    graph = make_wide_maps()
    tiny = tiny_chain(1, 1)
    with start_lab(Cluster.of([Device("d0")]), LabOptions(store=tmp_path)) as lab:
        group = WorkerGroup(lab.endpoint, ["d0"])
        bench = WorkerBench(group, group.greet()["d0"])
        measure_profile(graph, MeasureOptions(repeats=2, budget_s=0.05), None, bench)
        bench.close()
        with deploy(tiny, lab.endpoint) as session:
            session.run(random_inputs(tiny.program, 2))
            assert session.stats()["d0"].resident_bytes < 15_000_000


def test_a_plan_that_needs_more_than_its_memory_is_refused(tmp_path: Path) -> None:
    """Loaded it holds little; what it works with, twice its memory, comes when it first runs."""
    graph = make_wide_maps()
    cluster = Cluster.of([Device("d0", memory_bytes=20_000_000)])
    compiled = compile_plan(graph, whole_plan(graph, cluster, "d0"), cluster)
    told = r"'d0'.* holds [2-9]\d\.?\d* MB beyond an idle worker, the limit is 20 MB"
    with (
        start_lab(cluster, LabOptions(store=tmp_path)) as lab,
        pytest.raises(RunError, match=told),
        deploy(compiled, lab.endpoint),
    ):
        pass
