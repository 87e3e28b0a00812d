"""OSDS: how the volumes are split, by deep reinforcement learning (Algorithm 2), and its repairs.

As published but for two slips: transitions that end an episode do not count what follows them, and
the chance of exploring is no less than 0 (printed, it is -255 in the last episode). Updates follow
at the end of an episode, one per volume, instead of one after each volume.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partita.planners.distredge.actions import Action, action_of
from partita.planners.distredge.agent import SplitAgent, Weights
from partita.planners.distredge.environment import SplitEnvironment
from partita.planners.distredge.observation import Observation
from partita.planners.distredge.process import Cuts
from partita.planners.distredge.settings import DistrEdgeSettings

Decisions = tuple[Cuts, ...]
#: How the best plan is changed: noise of their own on some volumes; rows from one device to another
#: on some neighbouring volumes; the same noise on these. The first way alone is 0.4 % worse in the
#: mean of VGG-16 on DB-50, NB-nano and DC-50 (four seeds, nothing learnt), within their spread.
_WAYS = (0.5, 0.3, 0.2)
#: Chance that a volume is among those with noise of their own. Not tuned.
_CHANGED_SHARE = 0.5
#: Chance that neighbouring volumes are all volumes. Not tuned.
_ALL_SHARE = 0.3
#: Least standard deviation of such a change, in halves of the height: two rows of 224. Not tuned.
_LEAST_CHANGE = 0.02


@dataclass(frozen=True)
class Trained:
    """What a training found.

    Attributes:
        decisions: The best plan's cuts per volume; None when no plan was possible.
        latency_s: Its seconds, as observed; infinite when no plan was possible.
        weights: Actor and critic as they were when it was found.
        latencies_s: Of every episode.
        last: The cuts of the last episode.
    """

    decisions: Decisions | None
    latency_s: float
    weights: Weights
    latencies_s: tuple[float, ...]
    seconds: float
    last: Decisions


class Training:
    """Algorithm 2 on one split process.

    Args:
        seed: Of everything that is drawn here.
    """

    def __init__(
        self,
        environment: SplitEnvironment,
        agent: SplitAgent,
        settings: DistrEdgeSettings,
        seed: int,
    ) -> None:
        self._environment = environment
        self._agent = agent
        self._settings = settings
        self._random = np.random.default_rng((seed, 1))
        self._deviation = settings.noise_variance(len(environment.process.devices)) ** 0.5
        self._best: tuple[float, Decisions | None] = (float("inf"), None)
        self._best_weights = agent.weights()
        self._due = 0.0

    def run(self, starts: Sequence[Decisions] = ()) -> Trained:
        """The best plan of all episodes.

        Args:
            starts: Plans that the first episodes take as they are.
        """
        began_s = time.monotonic()
        latencies: list[float] = []
        limit = self._settings.seconds
        for episode in range(1, self._settings.episodes + 1):
            given = starts[episode - 1] if episode <= len(starts) else None
            latencies.append(self._play(episode, given))
            if limit is not None and time.monotonic() - began_s > limit:
                break
        return Trained(
            decisions=self._best[1],
            latency_s=self._best[0],
            weights=self._best_weights,
            latencies_s=tuple(latencies),
            seconds=time.monotonic() - began_s,
            last=tuple(self._environment.decisions),
        )

    def _play(self, episode: int, given: Decisions | None) -> float:
        """Play one episode, learn from it, and return the seconds of its plan."""
        actions = self._actions(given)
        observation, _ = self._environment.reset()
        volumes = len(self._environment.process.volumes)
        chance = self._settings.exploration(episode)
        info: dict[str, float] = {}
        for number in range(volumes):
            action = actions[number] if actions else self._explore(observation, chance)
            after, reward, ended, _, info = self._environment.step(action)
            self._agent.remember(observation, action, reward, (after, ended))
            observation = after
        self._learn(volumes)
        latency_s = info["latency_s"]
        if latency_s < self._best[0]:
            self._best = (latency_s, tuple(self._environment.decisions))
            self._best_weights = self._agent.weights()
        return latency_s

    def _learn(self, volumes: int) -> None:
        settings = self._settings
        if settings.learn and self._agent.remembered >= settings.batch:
            self._due += settings.updates * volumes
            steps, self._due = int(self._due), self._due % 1.0
            if steps:
                self._agent.train(gradient_steps=steps, batch_size=settings.batch)

    def _actions(self, given: Decisions | None) -> list[Action]:
        """An episode's actions where they do not come from the actor."""
        if given is not None:
            return [action_of(cuts) for cuts in given]
        best = self._best[1]
        if best is None or self._random.random() >= self._settings.perturb:
            return []
        return self._change(best)

    def _change(self, best: Decisions) -> list[Action]:
        """The best plan's actions, changed by noise of a drawn size in one of three ways."""
        draw = self._random
        bounds = np.log(min(_LEAST_CHANGE, self._deviation)), np.log(self._deviation)
        deviation = float(np.exp(draw.uniform(*bounds)))
        actions = [action_of(cuts) for cuts in best]
        way = draw.choice(len(_WAYS), p=_WAYS)
        if way == 0:
            chosen = draw.random(len(actions)) < _CHANGED_SHARE
            chosen[draw.integers(len(actions))] = True
            return [
                self._shake(action, deviation) if changed else action
                for action, changed in zip(actions, chosen, strict=True)
            ]
        noise = np.zeros(actions[0].shape)
        if way == 1:
            first, last = np.sort(draw.integers(0, len(noise), 2))
            noise[first : last + 1] = draw.normal(0.0, deviation)
        else:
            noise = draw.normal(0.0, deviation, len(noise))
        return self._shift(actions, noise)

    def _shift(self, actions: list[Action], noise: npt.NDArray[np.float64]) -> list[Action]:
        """Actions with the same noise on volumes that follow each other, or on all."""
        first, last = np.sort(self._random.integers(0, len(actions), 2))
        if self._random.random() < _ALL_SHARE:
            first, last = 0, len(actions) - 1
        return [
            (action + noise).astype(np.float32) if first <= number <= last else action
            for number, action in enumerate(actions)
        ]

    def _explore(self, observation: Observation, chance: float) -> Action:
        action = self._agent.act(observation)
        if self._random.random() < chance:
            return self._shake(action, self._deviation)
        return action

    def _shake(self, action: Action, deviation: float) -> Action:
        noise = self._random.normal(0.0, deviation, action.shape)
        return (action + noise).astype(np.float32)
