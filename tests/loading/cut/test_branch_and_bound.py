"""The exact methods find what a look at all divisions finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partita.errors import BundleError
from partita.loading import Problem, balance_loads, find_balanced, find_optimum
from partita.loading.cut.qlearning import LearnOptions, learn_division
from tests.loading.cut.drawn import all_divisions, draw_problem


def slowest_s(problem: Problem, ends: tuple[int, ...]) -> float:
    """Return the load time of the slowest child."""
    return max(problem.load_s(a, b) for a, b in zip((0, *ends[:-1]), ends, strict=True))


@pytest.mark.parametrize("seed", [*range(80), 248, 508])
def test_optimum_equals_a_look_at_all(seed: int) -> None:
    """No division has a smaller makespan, none as good has fewer children.

    The last two seeds have one of fewer children that climbing does not find.
    """
    problem = draw_problem(seed)
    most = 1 + seed % problem.most_children
    found = find_optimum(problem, most)
    problem.check_ends(found.ends)
    makespans = {ends: problem.simulate(ends).makespan_s for ends in all_divisions(problem, most)}
    least_s = min(makespans.values())
    assert found.makespan_s == pytest.approx(least_s, rel=1e-12)
    assert found.makespan_s == problem.simulate(found.ends).makespan_s
    fewest = min(len(ends) for ends, value in makespans.items() if value <= least_s * (1 + 1e-11))
    assert found.children == fewest


@pytest.mark.parametrize("seed", range(40))
def test_balance_equals_a_look_at_all(seed: int) -> None:
    """No division of as many children has a faster slowest child."""
    problem = draw_problem(seed)
    for count in range(1, problem.most_children + 1):
        ends = balance_loads(problem, count)
        problem.check_ends(ends)
        others = [one for one in all_divisions(problem, count) if len(one) == count]
        assert slowest_s(problem, ends) == pytest.approx(
            min(slowest_s(problem, one) for one in others)
        )


def test_trainable_blocks_cost() -> None:
    """The optimum moves when the last child must begin early, and is no better."""
    free = Problem((1.0,) * 6, (0.1,) * 6, loaders=6)
    bound = replace(free, last_start=2)
    assert find_optimum(free, 6).children == 6
    found = find_optimum(bound, 3)
    assert found.ends[-2] <= 2
    assert found.makespan_s > find_optimum(free, 6).makespan_s


@pytest.mark.parametrize("seed", range(60))
def test_optimum_and_balance_where_the_last_child_is_apart(seed: int) -> None:
    """It begins just with the trainable blocks; no such division is better."""
    problem = draw_problem(seed, size=2 + seed % 7)
    problem = replace(problem, last_start=1 + seed % (problem.size - 1), apart=True)
    most = problem.most_children
    found = find_optimum(problem, most)
    every = list(all_divisions(problem, most))
    assert found.ends in every
    least_s = min(problem.simulate(ends).makespan_s for ends in every)
    assert found.makespan_s == pytest.approx(least_s, rel=1e-12)
    for count in range(2, most + 1):
        ends = balance_loads(problem, count)
        others = [one for one in every if len(one) == count]
        assert ends in others
        assert slowest_s(problem, ends) == pytest.approx(
            min(slowest_s(problem, one) for one in others)
        )
    learned = learn_division(problem, most, LearnOptions("qlearning", episodes=50))
    assert {learned.ends, learned.policy_ends} <= set(every)
    with pytest.raises(BundleError, match=r"1 children.*allowed: 2 to"):
        find_optimum(problem, 1)


def test_more_children_than_blocks() -> None:
    """The error names the allowed range."""
    problem = Problem((1.0,) * 3, (1.0,) * 3)
    for ask in (find_optimum, find_balanced, balance_loads):
        with pytest.raises(BundleError, match=r"4 children: the model has 3 blocks.*1 to 3"):
            ask(problem, 4)
        with pytest.raises(BundleError, match="0 children"):
            ask(problem, 0)
