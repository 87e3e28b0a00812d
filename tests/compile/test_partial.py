"""Partial results of half-precision layers are summed in single precision."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from partita.cluster import Cluster
from partita.compile import build_layout, compile_plan
from partita.exactness.interpret import run_program
from partita.graph import Graph, load_graph
from partita.plan import Plan, Shard, Stage
from partita.regions import Region
from tests.compile.samples import make_plan, pair
from tests.models import make_model

CLUSTER = pair()


def half_graph(op: str) -> Graph:
    """Return one float16 layer on a map of 1 x 4 x 32 x 32."""
    axes = {"axes": np.asarray([2, 3], np.int64)} if op == "ReduceMax" else {}
    nodes = [helper.make_node(op, ["x", *axes], ["y"], name="core")]
    return load_graph(
        make_model(nodes, {"x": [1, 4, 32, 32]}, ["y"], axes, dtype=TensorProto.FLOAT16)
    )


def by_rows(graph: Graph, cluster: Cluster) -> Plan:
    """Return the plan that sums each half of the rows on its own device."""
    whole = Region.full((1, 4, 32, 32))
    shards = tuple(
        Shard(device, {"x": whole.with_axis(2, span)})
        for device, span in (("left", (0, 20)), ("right", (20, 32)))
    )
    return make_plan(graph, cluster, Stage("s", ("core",), "rows", shards, (Shard("left"),)))


@pytest.mark.parametrize("op", ["GlobalAveragePool", "ReduceMax"])
def test_a_mean_beyond_the_range_of_its_sum(op: str) -> None:
    """The mean of 1024 numbers near 500 is right, though their sum has no float16."""
    graph = half_graph(op)
    x = np.random.default_rng(0).uniform(400, 600, (1, 4, 32, 32)).astype(np.float16)
    outputs, _ = run_program(compile_plan(graph, by_rows(graph, CLUSTER), CLUSTER), {"x": x})
    wide = x.astype(np.float64)
    expected = wide.max((2, 3)) if op == "ReduceMax" else wide.mean((2, 3))
    assert outputs["y"].dtype == np.float16
    np.testing.assert_allclose(outputs["y"].reshape(1, 4), expected, rtol=1e-3)


@pytest.mark.parametrize(("op", "size"), [("GlobalAveragePool", 16), ("ReduceMax", 8)])
def test_bytes_of_a_partial(op: str, size: int) -> None:
    """Four sums travel as float32, four maxima as float16."""
    graph = half_graph(op)
    streams = build_layout(graph, by_rows(graph, CLUSTER), CLUSTER).program.streams
    assert [one.wire_bytes for one in streams if "#" in one.tensor] == [size]
