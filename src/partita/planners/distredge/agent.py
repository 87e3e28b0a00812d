"""Actor and critic: DDPG of Stable-Baselines3 with the paper's networks and two learning rates."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from stable_baselines3 import DDPG
from stable_baselines3.common.logger import Logger

from partita.planners.distredge.actions import Action
from partita.planners.distredge.environment import SplitEnvironment
from partita.planners.distredge.observation import Observation
from partita.planners.distredge.settings import DistrEdgeSettings

#: Widths of the hidden layers (section V); the critic reads state and action together.
ACTOR_LAYERS = (400, 200, 100)
CRITIC_LAYERS = (400, 200, 100, 100)
#: Transitions that are remembered; the paper gives no number. All of 4000 episodes with up to 25
#: volumes; not tuned.
MOST_TRANSITIONS = 100_000

Weights = Mapping[str, Mapping[str, Any]]


class SplitAgent(DDPG):
    """DDPG that is driven from outside: it acts, remembers and trains when told.

    Networks, replay memory and training are Stable-Baselines3's.

    Args:
        environment: Gives the sizes of states and actions.
        seed: Of the weights and the drawing of batches.
    """

    def __init__(
        self, environment: SplitEnvironment, settings: DistrEdgeSettings, seed: int
    ) -> None:
        layers = {"pi": list(ACTOR_LAYERS), "qf": list(CRITIC_LAYERS)}
        steps = settings.episodes * len(environment.process.volumes)
        super().__init__(
            "MlpPolicy",
            environment,
            buffer_size=max(settings.batch, min(steps, MOST_TRANSITIONS)),
            batch_size=settings.batch,
            tau=settings.tau,
            gamma=settings.discount,
            policy_kwargs={"net_arch": layers, "optimizer_kwargs": {"fused": True}},
            device="cpu",
            seed=seed,
        )
        self.set_logger(Logger(folder=None, output_formats=[]))
        self.actor.optimizer.param_groups[0]["lr"] = settings.actor_rate
        self.critic.optimizer.param_groups[0]["lr"] = settings.critic_rate

    def _update_learning_rate(self, optimizers: object) -> None:
        """Leave each optimizer its own rate; DDPG has one for both."""

    def act(self, observation: Observation) -> Action:
        """What the actor does in a state, shape (providers - 1,), from -1 to 1."""
        with torch.no_grad():
            return np.asarray(self.actor(torch.from_numpy(observation[None]))[0].numpy())

    def remember(
        self, before: Observation, action: Action, reward: float, after: tuple[Observation, bool]
    ) -> None:
        """Keep one transition; ``after`` is the next state, and whether the episode ended there.

        Targets of transitions that end an episode are the reward alone.
        """
        if self.replay_buffer is not None:
            observation, ended = after
            self.replay_buffer.add(
                before[None],
                observation[None],
                action[None],
                np.array([reward], dtype=np.float32),
                np.array([ended]),
                [{}],
            )

    @property
    def remembered(self) -> int:
        """Transitions that are kept."""
        return 0 if self.replay_buffer is None else self.replay_buffer.size()

    def weights(self) -> Weights:
        """A copy of the weights of actor and critic and their targets."""
        return {
            name: {key: value.clone() for key, value in part.state_dict().items()}
            for name, part in self._parts().items()
        }

    def restore(self, weights: Weights) -> None:
        """Take over weights; the optimizers begin anew at the next update."""
        for name, part in self._parts().items():
            part.load_state_dict(dict(weights[name]))

    def _parts(self) -> dict[str, torch.nn.Module]:
        return {
            "actor": self.actor,
            "critic": self.critic,
            "actor_target": self.actor_target,
            "critic_target": self.critic_target,
        }


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, and leave all generators of random numbers as they were.

    Small matrices are slower on several threads; Stable-Baselines3 seeds the process's generators.
    Numbers below the least normal one count as 0, which processors compute with much faster.
    """
    threads = torch.get_num_threads()
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
