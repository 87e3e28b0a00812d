"""Quantised networks: divided as the whole, and planned as they are."""

from __future__ import annotations

from functools import partial
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster
from partita.compile import check_plan, compile_plan, float_plan, planned_graph
from partita.exactness.compare import check_exactness, tolerance_of
from partita.graph import Graph, load_graph
from partita.plan import Plan, dump_plan, load_plan
from partita.quantisation import WIDTHS, CodeOptions, LayerBits, list_quantisable, quantize
from partita.quantisation.choose import choose_bits
from partita.quantisation.ranges import collect_ranges
from tests.laws.graphs import draw_model
from tests.laws.halo_fault import forget_halo
from tests.laws.random_plans import draw_cluster, draw_plan

RANDOM = st.randoms(use_true_random=False)


def draw_bits(rng: Random, graph: Graph) -> dict[str, LayerBits]:
    """Return bits for some layers and inputs, with ranges of one drawn sample."""
    weights, activations = list_quantisable(graph)
    chosen = [
        {name: rng.choice(WIDTHS) for name in names if rng.randint(0, 2)}
        for names in (weights, activations)
    ]
    options = CodeOptions(
        per_channel=rng.random() < 0.7,
        affine=rng.random() < 0.3,
        clipping=rng.choice(["max", "mse", "aciq"]),
        exact_sums=rng.random() < 0.3,
    )
    ranges = collect_ranges(graph, draw_inputs(graph.input_specs, 1, rng.randint(0, 99)))
    return choose_bits(graph, ranges, *chosen, options)


def find_worst(graph: Graph, plan: Plan, cluster: Cluster) -> float:
    """Return the largest relative difference of any piece or output of the divided network."""
    compiled = compile_plan(graph, plan, cluster)
    probe = partial(compile_plan, graph, plan, cluster)
    feeds = draw_inputs(graph.input_specs, 1, 5)
    found = check_exactness(graph, compiled, feeds, None, probe)  # type: ignore[arg-type]
    return max(each.relative for each in found)


def draw_case(rng: Random) -> tuple[Graph, Graph, Cluster, Plan]:
    """Return a network, the same with bits, a cluster, and a plan of it with those bits."""
    base = load_graph(draw_model(rng))
    graph = quantize(base, draw_bits(rng, base))
    cluster = draw_cluster(rng)
    plan = msgspec.structs.replace(draw_plan(rng, graph, cluster), bits=dict(graph.bits))
    return base, graph, cluster, plan


@pytest.mark.slow
@settings(max_examples=25)
@given(RANDOM)
def test_split_equals_whole_with_bits(rng: Random) -> None:
    """A quantised network divided is the whole quantised one, and its division the float one's."""
    base, graph, cluster, plan = draw_case(rng)
    check_plan(base, plan, cluster)
    assert find_worst(graph, plan, cluster) <= tolerance_of(graph)
    exact = float_plan(base, plan)
    check_plan(base, exact, cluster)
    assert find_worst(base, exact, cluster) <= tolerance_of(base)


@pytest.mark.slow
@settings(max_examples=15)
@given(RANDOM)
def test_a_plan_with_bits_is_the_same_after_its_file(rng: Random) -> None:
    """Read again and applied to the float model it compiles to the same program."""
    base, graph, cluster, plan = draw_case(rng)
    again = load_plan(dump_plan(plan))
    assert again == plan
    assert planned_graph(base, again).hash == graph.hash == again.model.hash
    assert compile_plan(base, again, cluster).program == compile_plan(graph, plan, cluster).program


@pytest.mark.slow
def test_a_planted_halo_fault_is_seen_through_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law fails when windows forget one row of their halo, whatever rounding allows."""
    forget_halo(monkeypatch)
    failed = 0
    for seed in range(30):
        base, _, cluster, plan = draw_case(Random(seed))
        try:
            exact = float_plan(base, plan)
            failed += find_worst(base, exact, cluster) > 1e-5
        except Exception:
            failed += 1
    assert failed >= 2


@given(RANDOM)
@settings(max_examples=20)
def test_all_that_is_packed_is_values_of_codes(rng: Random) -> None:
    """Every constant and every tensor with a packing equals its own rounding."""
    base = load_graph(draw_model(rng))
    graph = quantize(base, draw_bits(rng, base))
    for name, packing in graph.packings.items():
        if name in graph.constants:
            array = np.asarray(graph.constants[name], np.float32)
            assert np.array_equal(packing.round(array), array), name
