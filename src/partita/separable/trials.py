"""Networks that are trained apart from each other: here, or all at once on Ray."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from partita.errors import PartitaError, RunError, first_line
from partita.lab.on_ray import connect_to_ray
from partita.separable.fitting import Fitting
from partita.separable.module import SeparableNet
from partita.separable.network import Network
from partita.separable.policy import Policy
from partita.separable.training import Part, judge

#: Told which trial is done, and the mean loss of each of its epochs.
Told = Callable[[int, Sequence[float]], None]


@dataclass(frozen=True)
class Trial:
    """A network that is to be trained under one policy, and judged.

    Attributes:
        net: What it begins with; stays as it is.
        prices: For which the policy was chosen.
    """

    net: SeparableNet
    policy: Policy
    part: Part
    seed: int
    drop_messages: float
    prices: tuple[float, ...]

    def start(self) -> Fitting:
        """The training, at its start."""
        return Fitting(
            copy.deepcopy(self.net),
            self.policy,
            self.part,
            seed=self.seed,
            drop_messages=self.drop_messages,
        )

    def end(self, fitting: Fitting) -> Network:
        """What was trained, judged by the pictures held out and by those for tests."""
        facts = {
            "prices": list(self.prices),
            "validation_accuracy": judge(fitting.net, self.policy, self.part.judged),
            "test_accuracy": judge(fitting.net, self.policy, self.part.test),
        }
        return Network(fitting.net, self.policy, facts)


def train_on_ray(trials: Sequence[Trial], threads: int | None, told: Told) -> list[Network]:
    """Train each on a node of Ray that has cores for it, and return them in their order.

    Ray is the one that ``RAY_ADDRESS`` names, or that runs on this machine; nodes need the extra
    ``train``. What is trained is the same as here with as many threads, on equal processors.

    Args:
        threads: Of each trial, and cores that it takes; 1 by default.

    Raises:
        RunError: There is no Ray, a loss is no longer a number, or a node failed.
    """
    with connect_to_ray() as ray:
        train = ray.remote(_train).options(num_cpus=threads or 1, max_retries=0)
        numbers = {train.remote(trial, threads or 1): n for n, trial in enumerate(trials)}
        found: dict[int, Network] = {}
        try:
            while len(found) < len(numbers):
                left = [ref for ref, number in numbers.items() if number not in found]
                for ref in ray.wait(left)[0]:
                    network, losses = _result(ray, ref)
                    found[numbers[ref]] = network
                    told(numbers[ref], losses)
        finally:
            for ref in numbers:
                ray.cancel(ref, force=True)
    return [found[number] for number in range(len(trials))]


def _train(trial: Trial, threads: int) -> tuple[Network, list[float]]:
    """What runs on a node: a trial from start to end."""
    torch.set_num_threads(threads)
    fitting, losses = trial.start(), list[float]()
    fitting.finish(None, lambda _, loss: losses.append(loss))
    return trial.end(fitting), losses


def _result(ray: Any, ref: Any) -> tuple[Network, list[float]]:
    try:
        network, losses = ray.get(ref)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, PartitaError):
            raise cause from error
        raise RunError(f"Training failed on Ray: {first_line(cause or error)}") from error
    return network, losses
