"""Dividing a model by tabular Q-learning, as the paper on asymmetric modularization does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from partita.loading.cut.branch_and_bound import DivisionResult, Ends, find_optimum, gap_of
from partita.loading.cut.makespan import Problem

#: Children, index of the current one, blocks divided already, blocks left.
State = tuple[int, int, int, int]
#: Gives the seconds to load a child of blocks ``start`` to ``stop``, by doing it.
Measure = Callable[[int, int], float]
Values = dict[State, dict[int, float]]


@dataclass(frozen=True)
class LearnOptions:
    """How the agent learns.

    The paper gives none of these numbers. With these the best division tried is the optimum for its
    six models with 24 blocks and 1, 2 and 4 loaders, where weights are mapped.

    Attributes:
        update: ``qlearning`` looks at the best next action, ``sarsa`` at the one that is taken.
        episodes: Divisions tried per number of children.
        alpha: How much of an error is learned at once.
        gamma: What a later reward counts beside one now.
        explore: Share of actions that are drawn, at the first and at the last episode.
        tolerance: A load time is right within this fraction of what it ought to be.
    """

    update: Literal["qlearning", "sarsa"] = "qlearning"
    episodes: int = 2000
    alpha: float = 0.5
    gamma: float = 0.95
    explore: tuple[float, float] = (0.3, 0.01)
    tolerance: float = 0.1
    seed: int = 0


def learn_division(
    problem: Problem,
    most_children: int,
    options: LearnOptions = LearnOptions(),
    *,
    measure: Measure | None = None,
) -> DivisionResult:
    """The division of least makespan among those that the agent tried.

    For each number of children ``k`` an agent goes over the blocks from left to right and says
    where each child ends. A child earns 0 where its load time is within the tolerance of ``T / k``
    and -1 elsewhere, ``T`` being the time to load all ``k`` of them. One child is always right by
    that measure, so that ``k`` is chosen by the simulated makespan; of equal ones the smaller.

    Args:
        most_children: The largest ``k``.
        measure: Really loads a child, each once; by default the blocks' times are added.

    Returns:
        The best division tried, by the measured load times where there are any, and what the last
        values say themselves; makespans and how far they are above the optimum are the
        simulation's.

    Raises:
        BundleError: The model cannot be divided into that many children.
    """
    problem.check_count(most_children)
    load_s = cache(measure or problem.load_s)

    @cache
    def makespan_s(ends: Ends) -> float:
        return problem.simulate(ends, load_s).makespan_s

    tried: dict[Ends, None] = {}
    policies: list[Ends] = []
    for count in range(problem.least_children, most_children + 1):
        agent = Agent(problem, count, options, load_s)
        tried |= dict.fromkeys(agent.learn())
        policies.append(agent.policy())
    # Fewer children come first, and the first of equals is taken.
    policy = min(policies, key=makespan_s)
    best = min(sorted((*tried, *policies), key=len), key=makespan_s)
    optimum_s = find_optimum(problem, most_children).makespan_s
    best_s, policy_s = (problem.simulate(ends).makespan_s for ends in (best, policy))
    gap, policy_gap = gap_of(best_s, optimum_s), gap_of(policy_s, optimum_s)
    return DivisionResult(
        options.update, best, best_s, gap, policy_ends=policy, policy_gap=policy_gap
    )


class Agent:
    """Learns where each of ``count`` children ends.

    Attributes:
        values: Of each action in each state visited; all begin at 0, above what can be earned.
        wanted_s: The load time that each child ought to have.
    """

    def __init__(
        self, problem: Problem, count: int, options: LearnOptions, load_s: Measure
    ) -> None:
        problem.check_count(count)
        self.values: Values = {}
        # Each child has a fixed cost, so that k children load k - 1 of them more than one does.
        total_s = load_s(0, problem.size) + (count - 1) * problem.child_load_s
        self.wanted_s = total_s / count
        self._problem = problem
        self._count = count
        self._options = options
        self._load_s = load_s
        self._rng = random.Random(f"{options.seed} {count}")

    def learn(self) -> Iterator[Ends]:
        """Yield the division of each episode after learning from it."""
        first, last = self._options.explore
        episodes = self._options.episodes if self._count > 1 else 1
        for episode in range(episodes):
            yield self.run_episode(first + (last - first) * episode / max(1, episodes - 1))

    def run_episode(self, explore: float) -> Ends:
        """The division of one episode after learning from it."""
        state = self._state(0, 0)
        action = self._choose(state, explore)
        ends: list[int] = []
        while True:
            ends.append(action)
            reward = self._reward(state[2], action)
            if len(ends) == self._count:
                self.update(state, action, reward, 0.0)
                return tuple(ends)
            following = self._state(len(ends), action)
            next_action = self._choose(following, explore)
            actions = self._actions(following)
            is_sarsa = self._options.update == "sarsa"
            later = actions[next_action] if is_sarsa else max(actions.values())
            self.update(state, action, reward, later)
            state, action = following, next_action

    def update(self, state: State, action: int, reward: float, later: float) -> None:
        """Move the action's value towards the reward and what ``later`` promises.

        ``Q += alpha * (reward + gamma * later - Q)``
        """
        actions = self._actions(state)
        options = self._options
        actions[action] += options.alpha * (reward + options.gamma * later - actions[action])

    def policy(self) -> Ends:
        """The division that the values say is best."""
        ends: list[int] = []
        for child in range(self._count):
            ends.append(self._choose(self._state(child, ends[-1] if ends else 0), 0.0))
        return tuple(ends)

    def _state(self, child: int, done: int) -> State:
        return self._count, child, done, self._problem.size - done

    def _actions(self, state: State) -> dict[int, float]:
        """The ends allowed in a state with their values."""
        if state not in self.values:
            _, child, done, _ = state
            latest = self._problem.latest_end(child, self._count)
            earliest = latest if self._problem.is_fixed(child, self._count) else done + 1
            self.values[state] = dict.fromkeys(range(earliest, latest + 1), 0.0)
        return self.values[state]

    def _choose(self, state: State, explore: float) -> int:
        """An end, drawn in a share ``explore`` of all calls; else the first of the best."""
        actions = self._actions(state)
        if explore > 0 and self._rng.random() < explore:
            return self._rng.choice(list(actions))
        return max(actions, key=actions.__getitem__)

    def _reward(self, start: int, stop: int) -> float:
        off_s = abs(self._load_s(start, stop) - self.wanted_s)
        return 0.0 if off_s <= self._options.tolerance * self.wanted_s else -1.0
