"""The split process as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from partita.planners.distredge.actions import Action, cut_rows
from partita.planners.distredge.observation import HIGHEST, Observation, Observer
from partita.planners.distredge.process import Cuts, SplitProcess


class SplitEnvironment(gymnasium.Env[Observation, Action]):
    """One episode divides the volumes one by one; the last step's reward is 1 / T.

    Observations are accumulated latencies per provider, then height, depth, filter and stride of
    the next volume's last layer (size providers + 4), all scaled. Actions are providers - 1 numbers
    from -1 to 1, the borders between parts, in any order. Rewards are in units of the observer's
    time. ``info`` of the last step has ``latency_s`` (infinite where the plan is impossible) and
    ``decisions``.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, process: SplitProcess, observer: Observer) -> None:
        self.process = process
        self.observer = observer
        self.observation_space = spaces.Box(0.0, HIGHEST, (observer.size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (len(process.devices) - 1,), np.float32)
        self.decisions: list[Cuts] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode: nothing is divided, no time has passed.

        Args:
            seed: Of Gymnasium's own generator; the process itself draws nothing.
            options: None is known.
        """
        super().reset(seed=seed, options=options)
        self.decisions = []
        return self._observe(), {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Divide the next volume.

        Args:
            action: The borders, shape (providers - 1,); values beyond -1 and 1 count as these.
        """
        self.decisions.append(cut_rows(action, self.process.heights[len(self.decisions)]))
        ended = len(self.decisions) == len(self.process.volumes)
        observation = self._observe()
        if not ended:
            return observation, 0.0, False, False, {}
        latency_s = self.process.latency_s(self.decisions)
        info = {"latency_s": latency_s, "decisions": tuple(self.decisions)}
        return observation, self.observer.reward(latency_s), True, False, info

    def _observe(self) -> Observation:
        latencies_s = self.process.latencies(self.decisions)
        return self.observer.observe(len(self.decisions), latencies_s)
