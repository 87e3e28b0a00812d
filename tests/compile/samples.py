"""A small network, two devices and plans whose every transfer can be counted by hand."""

from __future__ import annotations

import numpy as np
from onnx import helper

from partita.cluster import Cluster, Link
from partita.graph import Graph, load_graph
from partita.plan import Identity, Plan, Shard, SplitAxis, Stage
from partita.regions import Interval, Region
from tests.models import make_model

#: Two 3x3 convolutions, a residual sum in the second, and a mean over space.
LAYERS = ("first", "second", "mean")


def small_graph() -> Graph:
    """Return the network: 1x2x8x4 in, ``a`` and ``b`` inside, 1x2x1x1 out."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((2, 2, 3, 3), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w2"], ["c"], name="second", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "a"], ["b"], name="sum"),
        helper.make_node("GlobalAveragePool", ["b"], ["y"], name="mean"),
    ]
    consts = {"w1": w, "w2": w[::-1].copy()}
    return load_graph(make_model(nodes, {"x": [1, 2, 8, 4]}, ["y"], consts), name="small")


def skip_graph() -> Graph:
    """Return three convolutions, the last of which adds what the first made."""
    w = np.random.default_rng(1).standard_normal((2, 2, 3, 3), np.float32)
    ends = {"first": ("x", "a"), "second": ("a", "b"), "third": ("b", "c")}
    nodes = [
        helper.make_node("Conv", [source, "w"], [made], name=name, pads=[1, 1, 1, 1])
        for name, (source, made) in ends.items()
    ]
    nodes.append(helper.make_node("Add", ["c", "a"], ["y"], name="sum"))
    return load_graph(make_model(nodes, {"x": [1, 2, 8, 4]}, ["y"], {"w": w}), name="skip")


def pair(links: bool = True) -> Cluster:
    """Return two devices, ``left`` (where inputs come from) and ``right``."""
    if links:
        return Cluster.of(["left", "right"])
    return Cluster.of(["left", "right"], links=[Link("left", "right", 1e6)])


def make_plan(graph: Graph, cluster: Cluster, *stages: Stage, **changes: object) -> Plan:
    """Return a plan of these stages with the right identities."""
    identities = Identity(graph.name, graph.hash), Identity(cluster.name, cluster.hash)
    return Plan(*identities, stages, planner="by hand", **changes)  # type: ignore[arg-type]


def rows(name: str, layers: tuple[str, ...], tensor: str, *parts: tuple[str, Interval]) -> Stage:
    """Return a stage divided by rows of its one output of 1x2x8x4."""
    whole = Region.full((1, 2, 8, 4))
    shards = tuple(Shard(device, {tensor: whole.with_axis(2, span)}) for device, span in parts)
    return Stage(name, layers, "rows", shards)


def whole(name: str, layers: tuple[str, ...], *devices: str, axis: SplitAxis = "none") -> Stage:
    """Return a stage that is not divided."""
    return Stage(name, layers, axis, tuple(Shard(device) for device in devices))


def halves(graph: Graph, cluster: Cluster, **changes: object) -> Plan:
    """Return the plan that most tests edit: rows, rows, and the mean on ``left``."""
    return make_plan(
        graph,
        cluster,
        rows("s0", ("first",), "a", ("left", (0, 4)), ("right", (4, 8))),
        rows("s1", ("second",), "b", ("left", (0, 4)), ("right", (4, 8))),
        whole("s2", ("mean",), "left"),
        **changes,
    )
