"""What an answer is worth without a group, with messages dropped in training or not."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import torch

from benchmarks.accuracy.packages import FASHION, fetch
from benchmarks.harness import Row, say, shown
from benchmarks.separable_training.networks import GROUPS, STALENESS
from benchmarks.separable_training.study import Scale
from partita.separable.architecture import Architecture
from partita.separable.data import read_dataset
from partita.separable.policy import Policy, rotating
from partita.separable.training import Trainer, divide, judge, judge_losses, start_net

#: The part of a scale that says which network.
PART = "dropped"
_ALL, _NONE = "all messages", "no messages"


@dataclass(frozen=True)
class Dropping:
    """One network to train and judge.

    Attributes:
        share: Of the messages, that do not arrive in training.
        folder: Of the pictures.
    """

    scale: Scale
    share: float
    seed: int
    folder: Path

    @property
    def title(self) -> str:
        """What progress shows."""
        return f"{self.share:.0%} of messages dropped, seed {self.seed}"


def measure_losses(
    scale: Scale, shares: Sequence[float], cache: Path, *, processes: int
) -> list[Row]:
    """Train a network for each share of dropped messages and seed, and judge all by test pictures.

    Args:
        scale: Its least seeds are those that are trained.

    Raises:
        UnavailableError: There are no pictures.
    """
    (labels,) = fetch(FASHION, cache).rglob("train-labels*")
    seeds = range(scale.seeds[0])
    jobs = [Dropping(scale, share, seed, labels.parent) for seed in seeds for share in shares]
    found: dict[float, list[dict[str, float]]] = {share: [] for share in shares}
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for job, accuracies in zip(jobs, pool.map(train_and_judge, jobs), strict=True):
            say(f"{job.title}: {', '.join(f'{v:.2%} {k}' for k, v in accuracies.items())}")
            found[job.share].append(accuracies)
    return list(_rows(found))


def train_and_judge(job: Dropping) -> dict[str, float]:
    """The share of test pictures that is right by what is lost, from nothing to all messages."""
    torch.set_num_threads(1)
    data = read_dataset(job.folder)
    scale = job.scale
    architecture = Architecture.parse(scale.networks[PART], groups=GROUPS, classes=data.classes)
    policy = rotating(architecture, math.gcd(STALENESS, *architecture.stages))
    part = divide(data, scale.options(PART), job.seed)
    net = start_net(architecture, part.train, seed=job.seed)
    trainer = Trainer(net, part.train, part.options, seed=job.seed, drop_messages=job.share)
    for _ in range(scale.epochs):
        trainer.train_epoch(lambda draw: (policy,))
    test = data.test.take(slice(0, scale.tested))
    losses = judge_losses(net, policy, test)
    return {
        _ALL: judge(net, policy, test),
        **{f"without group {group}'s": share for group, share in losses.items()},
        _NONE: judge(net, reduce(Policy.without, range(1, GROUPS), policy), test),
    }


def _rows(found: dict[float, list[dict[str, float]]]) -> Iterator[Row]:
    """Mean accuracies, each beside that of the same network with all messages."""
    for share, runs in found.items():
        for case in runs[0]:
            means = [100 * sum(run[name] for run in runs) / len(runs) for name in (case, _ALL)]
            title = f"{share:.0%} of messages dropped in training: {case}"
            if case == _ALL:
                yield shown(title, "%", means[0])
            else:
                yield shown(f"{title}; peer: {_ALL}", "%", *means)
