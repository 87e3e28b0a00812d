"""Groups of a separable network on devices, one by one: what planners are compared with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.graph import Graph
from partita.plan import Plan
from partita.planners import Evaluator, PlanOptions
from partita.planners.drafts.draft import Draft
from partita.planners.pricing.costs import Costs
from partita.planners.simple.chains import Tasks

PI3, PI4 = "raspberry-pi-3", "raspberry-pi-4"


def make_cost(
    graph: Graph, *kinds: str, latency_s: float = 2e-3, rate: float = 37.5e6
) -> CostModel:
    """Devices d0, d1... of these kinds; every link has this rate (bytes per second) and latency."""
    devices = [Device(f"d{number}", kind=kind) for number, kind in enumerate(kinds)]
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=rate, latency_s=latency_s)
    return CostModel(graph, cluster)


def group_of(graph: Graph, name: str) -> int:
    """The group that computes a layer: for a message first its sender, then its receiver."""
    sent = re.search(r"\.from(\d+)\.(slice|half)$", name)
    own = re.search(r"\.g(\d+)(\.|$)", name)
    found = sent or own
    if found is not None:
        return int(found[1])
    readers = [reader for out in graph.layer(name).outputs for reader in graph.readers(out)]
    return group_of(graph, readers[0].name) if readers else 0


def place_groups(tasks: Tasks, devices: Sequence[str]) -> Draft:
    """Each group on its device, cut where messages go and come."""
    evaluator = tasks.evaluator
    order = evaluator.outline.order
    return tasks.draft([devices[group_of(evaluator.graph, order[t.start])] for t in tasks.all])


def placed_plan(cost: Costs, devices: Sequence[str]) -> Plan:
    """Each group on its device, as a plan."""
    evaluator = Evaluator(cost, PlanOptions())
    return evaluator.problem.plan(place_groups(Tasks(evaluator), devices))
