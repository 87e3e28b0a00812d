"""Whole ranges of layers: their memory is what a plan of them takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations, pairwise, permutations

import pytest
from benchmarks.growth import draw_network

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.graph import Graph, load_graph
from partita.planners import DraftStage, Evaluator, PlanOptions
from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.pricing.range_works import RangeWorks
from partita.regions import Region
from tests.models import light_model
from tests.planners.fakes import (
    make_attention,
    make_chain,
    make_dense,
    make_gated,
    make_grouped,
    make_pair,
    make_residual,
)


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


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_chain(12),
        make_residual,
        make_gated,
        make_pair,
        make_dense,
        make_attention,
        make_grouped,
        lambda: load_graph(draw_network("residual", 20), name="deep"),
        lambda: load_graph(light_model("inception_v1"), name="branches"),
    ],
)
def test_works_of_ranges_are_those_of_stages(make: Callable[[], Graph]) -> None:
    """In any order of asking: walks from later places take over what earlier ones found."""
    graph = make()
    outline = LayerOrder(graph)
    works = RangeWorks(outline)
    spans = list(combinations(range(len(outline) + 1), 2))
    random.Random(0).shuffle(spans)
    for start, stop in spans[:400]:
        layers = outline.layers(start, stop)
        outputs = {t: Region.full(graph.tensors[t].shape) for t in outline.outputs(start, stop)}
        assert tuple(outputs) == outline.works.stage_outputs(layers)
        assert works.work(start, stop) == outline.works.stage(layers, outputs), (start, stop)
