"""More requests under way than a plan was made for: allowed while memory has room."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from partita.cli.sources import Loaded, allow_in_flight
from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import InputError
from partita.graph import load_graph
from partita.plan import Identity, Plan, Shard, Stage
from tests.cli.conftest import Ask, tiny_model

GRAPH = load_graph(tiny_model())


def make_loaded(memory_bytes: int) -> tuple[Loaded, CostModel]:
    """A plan of the whole network on one device with so much memory."""
    device = Device("a", memory_bytes=memory_bytes, kind="raspberry-pi-4")
    cluster = Cluster.of([device])
    stage = Stage("whole", tuple(layer.name for layer in GRAPH.layers), "none", (Shard("a"),))
    names = Identity(GRAPH.name, GRAPH.hash), Identity(cluster.name, cluster.hash)
    plan = Plan(*names, (stage,), "whole")
    return Loaded(plan, GRAPH, cluster, (Path(), Path(), Path())), CostModel(GRAPH, cluster)


def test_more_are_allowed_until_memory_is_full() -> None:
    """A device that has no room for so many is named, with what it needs and has."""
    loaded, cost = make_loaded(10**9)
    wide = msgspec.structs.replace(loaded.plan, in_flight=20)
    needed = cost.memory(cost.layout(wide))["a"].total
    assert needed > cost.memory(cost.layout(loaded.plan))["a"].total
    assert allow_in_flight(loaded, cost, 20).plan == wide
    assert allow_in_flight(loaded, cost, None) is loaded
    assert allow_in_flight(loaded, cost, 1) is loaded
    with pytest.raises(InputError, match=r"--in-flight is 20: device 'a' needs .* it has"):
        allow_in_flight(*make_loaded(needed - 1), 20)


def test_a_plan_is_simulated_and_run_with_more(ask: Ask) -> None:
    """The plan is for one request at a time; with more, throughput is higher."""
    one, four = (
        ask("simulate", "p.json", "--requests", "20", "--in-flight", count, "--json").reply
        for count in ("1", "4")
    )
    assert four["images_per_second"] > one["images_per_second"]
