"""What follows by hand from the paper on reinforcement-learned modularization for fast loading."""

from __future__ import annotations

from itertools import pairwise

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
from tests.loading.drawn import make_profile

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
