"""Split equals whole: any network, any plan, on any devices."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.cli.inputs import draw_inputs
from partita.compile import Compiled, check_plan, compile_plan
from partita.exactness.compare import Difference, check_exactness, tolerance_of
from partita.graph import Graph, load_graph
from partita.graph.rules import partial
from partita.plan import Plan, dump_plan, load_plan
from partita.program.check import check_program
from tests.laws.graphs import draw_model
from tests.laws.halo_fault import forget_halo
from tests.laws.random_plans import draw_cluster, draw_plan

#: A source of choices that can be shrunk.
RANDOM = st.randoms(use_true_random=False)


@dataclass(frozen=True)
class Case:
    """A network with a plan, compiled."""

    graph: Graph
    plan: Plan
    compiled: Compiled


def draw_case(rng: Random, *, half: bool = False) -> Case:
    """Return a random network, divided at random; its plan and program are sound."""
    graph = load_graph(draw_model(rng, half=half))
    cluster = draw_cluster(rng)
    plan = draw_plan(rng, graph, cluster)
    check_plan(graph, plan, cluster)
    return Case(graph, plan, compile_plan(graph, plan, cluster))


def find_worst(case: Case, *, positive: bool = False) -> Difference:
    """Return the largest difference of any piece or output of the divided network."""
    (feeds,) = draw_inputs(case.graph.input_specs, 1, 5)
    if positive:
        feeds = {name: np.abs(array) for name, array in feeds.items()}
    found = check_exactness(case.graph, case.compiled, [feeds])
    return max(found, key=lambda one: one.relative)


@pytest.mark.slow
@settings(max_examples=120)
@given(RANDOM)
def test_split_equals_whole(rng: Random) -> None:
    """Every piece at a stage boundary, and every output, is the whole network's."""
    case = draw_case(rng)
    assert check_program(case.compiled.program) == []
    worst = find_worst(case)
    assert worst.relative <= tolerance_of(case.graph) == 1e-5, worst


@pytest.mark.slow
@settings(max_examples=25)
@given(RANDOM)
def test_split_equals_whole_in_half_precision(rng: Random) -> None:
    """The same holds for float16 networks, to their rounding."""
    case = draw_case(rng, half=True)
    worst = find_worst(case, positive=True)
    assert worst.relative <= tolerance_of(case.graph) == 2e-3, worst


@pytest.mark.slow
@settings(max_examples=40)
@given(RANDOM)
def test_a_plan_is_the_same_after_its_file(rng: Random) -> None:
    """A plan written and read again is equal, and compiles to the same program."""
    graph = load_graph(draw_model(rng))
    cluster = draw_cluster(rng)
    plan = draw_plan(rng, graph, cluster)
    again = load_plan(dump_plan(plan))
    assert again == plan
    assert compile_plan(graph, again, cluster).program == compile_plan(graph, plan, cluster).program


def _count_failures(seeds: range) -> int:
    """Return how many cases differ from the whole network, or cannot even be computed."""
    failed = 0
    for seed in seeds:
        try:
            failed += find_worst(draw_case(Random(seed))).relative > 1e-5
        except Exception:
            failed += 1
    return failed


@pytest.mark.slow
def test_a_planted_halo_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law fails when windows forget one row or column of their halo."""
    forget_halo(monkeypatch)
    assert _count_failures(range(40)) >= 3


@pytest.mark.slow
def test_a_planted_merge_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law fails when a merge forgets its last partial result."""
    honest = partial.PartialForm.emit_merge

    def forgetful(self, view, parts, consts, out):  # type: ignore[no-untyped-def]
        return honest(self, view, parts[: max(1, len(parts) - 1)], consts, out)

    monkeypatch.setattr(partial.PartialForm, "emit_merge", forgetful)
    assert _count_failures(range(40)) >= 3
