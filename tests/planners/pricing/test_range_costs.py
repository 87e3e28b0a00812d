"""Whole ranges of layers: their memory is what a plan of them takes."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations

import pytest

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.graph import Graph
from partita.planners import DraftStage, Evaluator, PlanOptions
from tests.planners.fakes import make_chain, make_dense, make_gated, make_pair, make_residual


@pytest.mark.parametrize(
    "graph",
    [make_chain(5), make_residual(), make_gated(), make_pair(), make_dense()],
    ids=["chain", "residual", "gated", "pair", "dense"],
)
def test_the_memory_of_a_range_is_what_the_plan_takes(graph: Graph) -> None:
    """Every cut into up to three ranges on different devices, the requester among them."""
    cluster = Cluster.of([Device(f"d{n}", kind="raspberry-pi-4") for n in range(3)])
    evaluator = Evaluator(CostModel(graph, cluster), PlanOptions(in_flight=3))
    count = len(evaluator.outline)
    for inner in (cuts for parts in range(3) for cuts in combinations(range(1, count), parts)):
        ranges = list(pairwise((0, *inner, count)))
        for devices in permutations(evaluator.devices, len(ranges)):
            draft = tuple(
                DraftStage(*span, "none", (d,)) for span, d in zip(ranges, devices, strict=True)
            )
            layout = evaluator.problem.layout(evaluator.problem.plan(draft))
            taken = evaluator.cost.memory(layout)
            for span, device in zip(ranges, devices, strict=True):
                assert evaluator.ranges.memory(*span, device) == taken[device], (draft, device)
