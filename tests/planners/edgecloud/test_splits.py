"""Cuts and widths together: Algorithm 1 and the soonest split, against trying everything."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from partita.planners.edgecloud.algorithm1 import grid_splits
from partita.planners.edgecloud.least_latency import (
    ERROR_GAP,
    GAP,
    SLACK,
    SoonestSplit,
    soonest_split,
)
from partita.planners.edgecloud.split_problem import CLOUD_ONLY, Candidate, Split
from partita.planners.edgecloud.trade_offs import list_candidates, list_float_edges, pareto
from tests.laws.test_exactness import RANDOM
from tests.planners.edgecloud.cases import draw_problem, every_split, least_latency_by_trying


@settings(max_examples=25)
@given(RANDOM)
def test_the_soonest_split_is_within_a_percent_of_the_optimum(rng: Random) -> None:
    """Over every cut and all widths, within memory and a bound on errors."""
    problem, most_error = draw_problem(
        rng, rng.randint(1, 4), rng.choice(((2, 4, 8), (2, 4, 6, 8)))
    )
    if rng.random() < 0.5:
        problem, most_error = draw_problem(rng, 3)
    least_s = least_latency_by_trying(problem, most_error)
    found = soonest_split(problem, most_error)
    assert problem.is_feasible(found.split, most_error)
    assert found.latency_s == problem.latency_s(found.split)
    assert found.latency_s == pytest.approx(problem.latency_s(found.split))
    assert least_s * (1 - 1e-9) <= found.latency_s <= least_s * 1.01


@settings(max_examples=20)
@given(RANDOM)
def test_trying_in_arrays_is_trying_one_by_one(rng: Random) -> None:
    """The oracle of the law above says what the problem says of each split."""
    problem, most_error = draw_problem(rng, rng.randint(1, 3), (2, 6, 8))
    least_s = min(
        problem.latency_s(split)
        for cut in range(len(problem.network.layers) + 1)
        for split in every_split(problem, cut)
        if not cut or problem.is_feasible(split, most_error)
    )
    assert least_latency_by_trying(problem, most_error) == pytest.approx(least_s)


@settings(max_examples=25)
@given(RANDOM)
def test_splits_of_the_grid_fit_and_begin_with_the_cloud(rng: Random) -> None:
    """Each keeps to memory, and the exact weights have no more error than the Lagrangian's."""
    problem, _ = draw_problem(rng, rng.randint(1, 5))
    by_hull, exact = (grid_splits(problem, [way]) for way in ("lagrangian", "exact"))
    for splits in (by_hull, exact):
        assert splits[0] == CLOUD_ONLY
        assert len(set(splits)) == len(splits)
        assert all(problem.is_feasible(split) for split in splits[1:])
        assert {split.cut for split in splits} <= set(problem.cuts)
    assert min(map(problem.error, exact)) <= min(map(problem.error, by_hull)) + 1e-12


@settings(max_examples=25)
@given(RANDOM)
def test_with_one_width_it_is_the_best_prefix(rng: Random) -> None:
    """Nothing but the cut is left to choose: of all prefixes that fit the soonest is found."""
    problem, _ = draw_problem(rng, rng.randint(1, 8), (16,))
    splits = [Split.uniform(cut, 16) for cut in range(len(problem.network.layers) + 1)]
    fits = [split for split in splits if not split.cut or problem.is_feasible(split)]
    assert soonest_split(problem, np.inf).latency_s == pytest.approx(
        min(map(problem.latency_s, fits))
    )


@settings(max_examples=40)
@given(RANDOM)
def test_it_is_never_slower_than_all_on_one_side(rng: Random) -> None:
    """Remark 5, on drawn networks of up to ten layers: than all in the cloud, and than all on the
    edge in each width that fits and keeps to the bound on errors.
    """
    problem, most_error = draw_problem(rng, rng.randint(1, 10))
    count = len(problem.network.layers)
    edge = (Split.uniform(count, width) for width in problem.widths)
    rivals = [CLOUD_ONLY, *(one for one in edge if problem.is_feasible(one, most_error))]
    found = soonest_split(problem, most_error)
    assert problem.is_feasible(found.split, most_error)
    assert found.latency_s <= min(map(problem.latency_s, rivals)) * (1 + GAP)


def test_the_pareto_list_falls_in_error() -> None:
    """What is later and no better is left out."""
    listed = [(3.0, 0.1), (1.0, 5.0), (2.0, 1.0), (2.5, 1.0), (4.0, 0.2)]
    made = [Candidate(latency, error, Split(n)) for n, (latency, error) in enumerate(listed)]
    assert [one.split.cut for one in pareto(made)] == [1, 2, 0]


def test_candidates_without_time_are_the_simple_ones() -> None:
    """One width for all and floats that cross in few bits take no search; with time more are."""
    problem, _ = draw_problem(Random(10), 4)
    listed = list_candidates(problem, exact=True, as_printed=False, is_over=lambda: True)
    count = len(problem.network.layers)
    uniform = (Split.uniform(count, width) for width in problem.widths)
    assert {one.split for one in listed} >= set(filter(problem.is_feasible, uniform))
    assert set(listed) < set(list_candidates(problem, exact=True, as_printed=False))


@settings(max_examples=15)
@given(RANDOM)
def test_candidates_are_of_ever_less_error_and_none_of_the_grid_is_better(rng: Random) -> None:
    """For each split of the grid one is as soon, but for the solver's gap, of no more error.

    One width for all on the edge is there beside, if it fits, and floats that cross in few bits.
    """
    problem, _ = draw_problem(rng, rng.randint(1, 4))
    listed = list_candidates(problem, exact=True, as_printed=False)
    count = len(problem.network.layers)
    uniform = {
        Candidate(problem.latency_s(split), problem.error(split), split)
        for split in (Split.uniform(count, width) for width in problem.widths)
        if problem.is_feasible(split)
    }
    apart = uniform | set(pareto(list_float_edges(problem)))
    assert apart <= set(listed)
    errors = [one.error for one in listed if one not in apart or one in pareto(listed)]
    assert errors == sorted(set(errors), reverse=True)
    assert min(one.error for one in listed) == 0.0
    for split in grid_splits(problem, ["lagrangian"]):
        assert any(
            one.latency_s <= problem.latency_s(split) * 1.001
            and one.error <= problem.error(split) * (1 + 1e-9)
            for one in listed
        )


@settings(max_examples=25)
@given(RANDOM)
def test_of_splits_that_are_as_soon_one_of_hardly_more_than_the_least_error(rng: Random) -> None:
    """Against trying all widths at the cut, within memory."""
    problem, most_error = draw_problem(rng, rng.randint(1, 3), (2, 6, 8))
    search = SoonestSplit([problem])
    found = search.find(most_error)
    if found is None:
        return
    refined, latest_s = search.refine(found), (1 + SLACK) * found.latency_s
    assert refined is not None
    assert problem.is_feasible(refined.split)
    assert refined.split.cut == found.split.cut
    assert refined.latency_s <= latest_s * (1 + 1e-9)
    least = min(
        problem.error(split)
        for split in every_split(problem, found.split.cut)
        if problem.is_feasible(split) and problem.latency_s(split) <= latest_s * (1 - 1e-9)
    )
    largest = float((problem.weight_errors + problem.activation_errors).max())
    assert refined.error <= least * (1 + ERROR_GAP) + 1e-9 * largest


def test_an_edge_in_floats_sends_few_bits() -> None:
    """It is offered though others have less error by the sum and are sooner."""
    problem, _ = draw_problem(Random(3), 3)
    found = list(list_float_edges(problem))
    assert {one.split.cut for one in found} <= set(problem.cuts)
    for one in found:
        made = {
            problem.network.makers[tensor] for tensor in problem.network.crossing[one.split.cut]
        }
        assert set(one.split.weight_bits) == {problem.widths[-1]}
        for layer, bits in enumerate(one.split.activation_bits):
            assert (bits < problem.widths[-1]) == (layer in made)
    assert found
    assert set(pareto(found)) <= set(list_candidates(problem, exact=True, as_printed=False))
