"""Q-learning against the optimum, and the methods behind one call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from partita.errors import BundleError
from partita.graph import load_graph
from partita.loading import (
    LearnOptions,
    Problem,
    TrialLoads,
    choose_division,
    learn_division,
    measure_blocks,
)
from partita.loading.cut.qlearning import Agent
from partita.zoo import build_model
from tests.loading.drawn import draw_problem, make_profile

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


@pytest.mark.parametrize("method", ["best", "qlearning", "sarsa", "optimum", "balanced"])
def test_every_method_answers_in_layers(method: Any) -> None:
    """Ends are numbers of layers, the trainable blocks lie in the last child, alone."""
    profile = make_profile([1, 2, 3, 1, 1], [0.1] * 5, trainable=2)
    choice = choose_division(profile, method=method, loaders=4)
    assert choice.ends == tuple(3 * end for end in choice.chosen.ends)
    assert choice.ends[-1] == 15
    assert choice.ends[-2] == 9
    assert choice.chosen.makespan_s <= choice.whole_s
    assert choice.chosen.gap >= 0
    assert choice.speedup_bound >= 1


def test_best_says_by_how_much() -> None:
    """The better of two comes first, and the gain is that over the other one."""
    problem = draw_problem(4, size=16)
    profile = make_profile(problem.loads, problem.computes)
    choice = choose_division(profile, loaders=4, most_children=6)
    assert {found.method for found in choice.found} == {"optimum", "qlearning"}
    first, second = choice.found
    assert choice.chosen == first
    assert choice.gain == pytest.approx(second.makespan_s / first.makespan_s - 1)
    assert choice.gain >= 0
    assert choose_division(profile, method="optimum", loaders=4).gain == 0


def test_what_cannot_be_chosen() -> None:
    """A method that does not exist, and more children than can be, are refused."""
    profile = make_profile([1] * 4, [1] * 4, trainable=2)
    with pytest.raises(BundleError, match="Method 'guess' is unknown; allowed: best, qlearning"):
        choose_division(profile, method="guess", loaders=1)  # type: ignore[arg-type]
    for method in ("best", "qlearning", "balanced"):
        with pytest.raises(BundleError, match=r"4 children: the model has 4 blocks.*2 to 3"):
            choose_division(profile, method=method, loaders=1, most_children=4)  # type: ignore[arg-type]


class FakeTryout:
    """Says how long divisions take, and remembers which were asked for."""

    def __init__(self, times: dict[int, float], prepack_s: float = 1.0) -> None:
        self.times = times
        self.prepack_s = prepack_s
        self.loaded: list[tuple[int, int]] = []

    def answer_s(self, divisions: list[tuple[int, ...]], *, prepack: bool = False) -> list[float]:
        """Return seconds by number of children."""
        return [self.times.get(len(ends), 9.0) + self.prepack_s * prepack for ends in divisions]

    def check(self, profile: Any, loaders: int, *, cold: bool) -> None:
        """Fit whatever is asked for."""

    def load_s(self, start: int, stop: int) -> float:
        """Return seconds by number of blocks."""
        self.loaded.append((start, stop))
        return float(stop - start)


def test_what_is_really_loaded_decides() -> None:
    """Against the simulation, and among equals for the fewest children."""
    profile = make_profile([1, 1, 1, 1], [0.1] * 4)
    simulated = choose_division(profile, loaders=4)
    many = simulated.chosen.children
    assert many > 1
    for times, wanted in (
        ({1: 1.0, many: 2.0}, 1),
        ({1: 2.0, many: 1.0}, many),
        ({1: 1.08, many: 1.0}, 1),
    ):
        tryout: Any = FakeTryout(times)
        choice = choose_division(profile, loaders=4, tryout=tryout)
        assert choice.chosen.children == wanted
        assert choice.chosen.measured_s == times[wanted]
        assert not tryout.loaded
        assert not choice.prepack
    for prepack_s, prepack in ((-0.05, False), (-0.4, True)):
        tryout = FakeTryout({1: 1.0}, prepack_s=prepack_s)
        choice = choose_division(profile, loaders=4, tryout=tryout)
        assert choice.prepack == prepack
    personal = make_profile([1, 1, 1, 1], [0.1] * 4, trainable=1)
    tryout = FakeTryout({1: 0.5})
    choice = choose_division(personal, loaders=4, tryout=tryout)
    assert choice.chosen.ends[-2:] == (3, 4)
    tryout = FakeTryout({})
    choose_division(profile, method="qlearning", loaders=4, tryout=tryout, real_rewards=True)
    assert len(tryout.loaded) == len(set(tryout.loaded)) > 4


def test_trying_loads_real_children() -> None:
    """Children and bundles are written, loaded and removed again."""
    graph = load_graph(build_model("mobilenet_v1", size=32))
    profile = measure_blocks(graph, most_blocks=4, repeats=1)
    told: list[str] = []
    with TrialLoads(
        graph, profile, loaders=1, repeats=1, progress=lambda done, total, name: told.append(name)
    ) as tryout:
        assert 0 < tryout.load_s(0, 1) < 5
        assert 0 < tryout.load_s(1, 3) < 5
        times = tryout.answer_s([(4,), (1, 4)])
        home = Path(tryout._folder.name)
        assert home.is_dir()
    assert not home.exists()
    assert all(0 < one < 5 for one in times)
    assert len(told) == 2 + 2 + 2


@pytest.mark.parametrize("method", ["best", "balanced", "qlearning"])
@pytest.mark.parametrize("trainable", [0, 1])
def test_gaps_are_those_to_the_optimum(method: Any, trainable: int) -> None:
    """Of every row, also of what is not asked for; trainable layers are a child of their own."""
    profile = make_profile([3, 1, 2, 1, 2], [0.4, 0.1, 0.3, 0.2, 0.1], trainable=trainable)
    optimum = choose_division(profile, method="optimum", loaders=3).chosen
    tryout: Any = FakeTryout({})
    choice = choose_division(profile, method=method, loaders=3, tryout=tryout)
    for one in choice.found:
        assert one.gap == pytest.approx(one.makespan_s / optimum.makespan_s - 1, abs=1e-8)
        assert not trainable or one.ends[-2:] == (4, 5)
    names = {one.method for one in choice.found}
    assert ("trainable apart" if trainable else "one child") in names


def test_a_tryout_of_something_else() -> None:
    """It is refused before anything is loaded, and so is one that is not open."""
    graph = load_graph(build_model("squeezenet", size=64))
    other = load_graph(build_model("mobilenet_v1", size=32))
    profile = measure_blocks(graph, most_blocks=2, repeats=1)
    with pytest.raises(BundleError, match="is of model"):
        TrialLoads(other, profile, loaders=1)
    for wrong in ({"loaders": 0}, {"loaders": 1, "repeats": 0}):
        with pytest.raises(BundleError, match="got 0; allowed: 1 to"):
            TrialLoads(graph, profile, **wrong)
    with TrialLoads(graph, profile, loaders=1) as tryout:
        for wrong in ({"loaders": 2}, {"loaders": 1, "cold": True}):
            with pytest.raises(BundleError, match="both must be the same"):
                choose_division(profile, tryout=tryout, **wrong)
        with pytest.raises(BundleError, match="a method that learns"):
            choose_division(profile, method="optimum", loaders=1, tryout=tryout, real_rewards=True)
    with pytest.raises(BundleError, match="'with' statement"):
        choose_division(profile, loaders=1, tryout=tryout)
    for wrong in ({"threads": 0}, {"repeats": 0}, {"threads": True}):
        with pytest.raises(BundleError, match="allowed: 1 to"):
            measure_blocks(graph, **wrong)
