"""Q-learning: what follows by hand from the paper on fast loading, and against the optimum."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from partita.loading import (
    LearnOptions,
    Problem,
    balance_loads,
    choose_division,
    learn_division,
    simulate_loading,
)
from partita.loading.cut.makespan import simulate_children
from partita.loading.cut.qlearning import Agent
from tests.loading.cut.drawn import draw_problem, make_profile

#: Seconds to load ten blocks, and the slowest child's of the most even division into 2 to 5.
LOADS = (4.0, 1.0, 1.0, 2.0, 6.0, 3.0, 3.0, 5.0, 2.0, 3.0)
SLOWEST = {2: 16.0, 3: 12.0, 4: 9.0, 5: 8.0}


@pytest.mark.parametrize(("count", "slowest"), SLOWEST.items())
def test_the_slowest_child_of_the_most_even_division(count: int, slowest: float) -> None:
    """The exact division has the bottleneck known by hand, and learning is within its tolerance."""
    problem = Problem(LOADS, (0.0,) * len(LOADS), loaders=count)
    ends = balance_loads(problem, count)
    assert max(sum(LOADS[start:stop]) for start, stop in pairwise((0, *ends))) == slowest
    options = LearnOptions(episodes=1000)
    learned = learn_division(problem, count, options)
    assert slowest <= learned.makespan_s <= slowest * (1 + options.tolerance)


def test_a_wave_loads_while_the_first_computes() -> None:
    """Case 2: five children of 1 s that run for 0.2 s, two threads: the third wave ends at 3 s."""
    found = simulate_children([1.0] * 5, [0.2] * 5, loaders=2, contention=1.0)
    assert found.makespan_s == pytest.approx(3.2)


def test_as_many_threads_as_children_is_case_1() -> None:
    """All load at once where threads are as many as children: more of them change nothing."""
    profile = make_profile([1.0] * 4, [0.2] * 4)
    equal, more = (
        simulate_loading(profile, (1, 2, 3, 4), loaders=loaders, mapped=False) for loaders in (4, 9)
    )
    assert [child.load_start_s for child in equal.children] == [0.0] * 4
    assert equal == more


def test_the_last_child_holds_all_trainable_layers() -> None:
    """The last three of ten blocks may be trained; every method leaves them together."""
    profile = make_profile(LOADS, [0.1] * len(LOADS), trainable=3)
    for method in ("optimum", "balanced", "qlearning", "sarsa"):
        choice = choose_division(
            profile,
            method=method,
            loaders=4,
            mapped=False,
            most_children=4,  # type: ignore[arg-type]
        )
        assert choice.chosen.children > 1
        assert choice.chosen.ends[-2] <= len(LOADS) - 3


def test_a_temporal_difference_keeps_the_old_value() -> None:
    """Value 1, reward -1, next value 2: 0.9. The paper's formula as printed gives 0.4."""
    options = LearnOptions(alpha=0.5, gamma=0.9)
    agent = Agent(Problem((1.0,) * 3, (0.0,) * 3), 2, options, lambda start, stop: 1.0)
    state = (2, 0, 0, 3)
    agent.values[state] = {1: 1.0}
    agent.update(state, 1, -1.0, 2.0)
    assert agent.values[state][1] == pytest.approx(0.9)


QUICK = LearnOptions(episodes=600)


@pytest.mark.parametrize("update", ["qlearning", "sarsa"])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_learned_is_near_the_optimum(seed: int, update: Any) -> None:
    """The best division tried is within 5 % of the optimum, and never above it."""
    problem = draw_problem(seed, size=10)
    most = min(6, problem.most_children)
    found = learn_division(problem, most, replace(QUICK, update=update))
    problem.check_ends(found.ends)
    problem.check_ends(found.policy_ends)
    assert -1e-12 <= found.gap <= 0.05
    assert found.gap <= found.policy_gap
    assert found.makespan_s == pytest.approx(problem.simulate(found.ends).makespan_s)


@pytest.mark.parametrize("update", ["qlearning", "sarsa"])
def test_the_policy_earns_all_rewards_where_that_is_possible(update: Any) -> None:
    """Where equal children exist, the last values name them: 1+3, 4, 2+2 and 4 of 16 s."""
    problem = Problem((1.0, 3.0, 4.0, 2.0, 2.0, 1.0, 1.0, 2.0), (0.0,) * 8, loaders=4)
    agent = Agent(problem, 4, LearnOptions(update), problem.load_s)
    list(agent.learn())
    assert agent.policy() == (2, 3, 5, 8)


def test_the_fixed_cost_of_children_is_part_of_what_they_should_take() -> None:
    """Two equal children earn their rewards although each takes far more than half of the whole."""
    problem = Problem((1.0, 1.0), (0.0, 0.0), child_load_s=10.0)
    agent = Agent(problem, 2, LearnOptions(), problem.load_s)
    assert agent.wanted_s == 11.0
    assert list(agent.learn())[-1] == (1, 2)
    assert agent.values[2, 0, 0, 2] == {1: 0.0}


def test_updates_by_hand() -> None:
    """Q moves by half towards reward plus 0.95 of what follows, from what it was."""
    agent = Agent(Problem((1.0,) * 3, (0.0,) * 3), 2, LearnOptions(), lambda start, stop: 1.0)
    state = (2, 0, 0, 3)
    agent.update(state, 1, -1.0, -2.0)
    assert agent.values[state][1] == pytest.approx(0.5 * (-1 + 0.95 * -2))
    agent.update(state, 1, 0.0, 0.0)
    assert agent.values[state][1] == pytest.approx(0.25 * (-1 + 0.95 * -2))


def test_sarsa_learns_from_the_action_taken() -> None:
    """After the same actions the two differ where a bad next action was drawn."""
    problem = Problem((1.0, 1.0, 1.0, 1.0, 2.0), (0.0,) * 5)
    values = []
    for update in ("qlearning", "sarsa"):
        agent = Agent(problem, 3, LearnOptions(update, seed=3), problem.load_s)  # type: ignore[arg-type]
        for _ in range(30):
            agent.run_episode(1.0)  # all actions drawn: the same ones for both
        values.append(agent.values)
    assert values[0].keys() == values[1].keys()
    first = (3, 0, 0, 5)
    assert values[0][first] != values[1][first]
    # To look at the best next action is to expect no less than what an action drawn brings.
    assert sum(values[0][first].values()) > sum(values[1][first].values())


def test_measured_loads_are_taken_once_each() -> None:
    """Each child is loaded once, and what was measured decides."""
    problem = Problem((1.0,) * 6, (0.1,) * 6, loaders=3)
    asked: list[tuple[int, int]] = []

    def measure(start: int, stop: int) -> float:
        asked.append((start, stop))
        return 5.0 if start < 3 < stop else 0.1 * (stop - start)

    found = learn_division(problem, 3, QUICK, measure=measure)
    assert len(asked) == len(set(asked))
    assert 3 in found.ends
    assert found.makespan_s == problem.simulate(found.ends).makespan_s
    assert found.gap >= 0


def test_equal_by_seed() -> None:
    """The same seed finds the same, another one tries other divisions."""
    problem = replace(draw_problem(7, size=20), last_start=-1)

    def learn(seed: int) -> list[tuple[int, ...]]:
        return list(Agent(problem, 4, replace(QUICK, seed=seed), problem.load_s).learn())

    assert learn(1) == learn(1)
    assert learn(1) != learn(2)
    assert learn_division(problem, 4, QUICK) == learn_division(problem, 4, QUICK)
