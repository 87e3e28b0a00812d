"""More requests under way than a plan was made for: allowed while memory has room."""

from __future__ import annotations

import msgspec
import pytest

from partita.cli.costs import allow_in_flight
from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import InputError
from partita.graph import load_graph
from partita.plan import Asked, Identity, Plan, Shard, Stage
from tests.cli.conftest import Ask, tiny_model

GRAPH = load_graph(tiny_model())


def make_plan(memory_bytes: int) -> tuple[Plan, CostModel]:
    """A plan of the whole network on one device with so much memory."""
    device = Device("a", memory_bytes=memory_bytes, kind="raspberry-pi-4", swap_bytes_per_s=1e7)
    cluster = Cluster.of([device])
    stage = Stage("whole", tuple(layer.name for layer in GRAPH.layers), "none", (Shard("a"),))
    names = Identity(GRAPH.name, GRAPH.hash), Identity(cluster.name, cluster.hash)
    return Plan(*names, (stage,), "whole"), CostModel(GRAPH, cluster)


def test_more_are_allowed_until_memory_is_full() -> None:
    """A device that has no room for so many is named, with what it needs and has."""
    plan, cost = make_plan(10**9)
    wide = msgspec.structs.replace(plan, in_flight=20)
    needed = cost.memory(cost.layout(wide))["a"].total
    assert needed > cost.memory(cost.layout(plan))["a"].total
    assert allow_in_flight(plan, cost, 20) == wide
    assert allow_in_flight(plan, cost, None) is plan
    assert allow_in_flight(plan, cost, 1) is plan
    with pytest.raises(InputError, match=r"--in-flight is 20: device 'a' needs .* it has"):
        allow_in_flight(*make_plan(needed - 1), 20)
    narrow, cost = make_plan(needed - 1)
    swaps = msgspec.structs.replace(narrow, options=Asked(swap=True))
    assert allow_in_flight(swaps, cost, 20).in_flight == 20


def test_a_plan_is_simulated_and_run_with_more(ask: Ask) -> None:
    """The plan is for one request at a time; with more, throughput is higher."""
    one, four = (
        ask("simulate", "p.json", "--requests", "20", "--in-flight", count, "--json").reply
        for count in ("1", "4")
    )
    assert four["images_per_second"] > one["images_per_second"]
