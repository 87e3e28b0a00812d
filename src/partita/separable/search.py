"""Searching a policy and training the network under it (section 3.2): rounds of three stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from partita.errors import InputError
from partita.separable import checkpoint
from partita.separable.controller import Space
from partita.separable.data import Dataset, Pictures
from partita.separable.module import SeparableNet
from partita.separable.policy import Policy
from partita.separable.samplers import (
    EvolutionSampler,
    Proposal,
    RandomSampler,
    ReinforceSampler,
    Sampler,
)
from partita.separable.traffic import count_traffic
from partita.separable.training import Trainer, TrainOptions, epoch_generator, judge

SAMPLERS: dict[str, Callable[[Space, int], Sampler]] = {
    "controller": lambda space, seed: ReinforceSampler(space, seed=seed),
    "random": lambda space, seed: RandomSampler(space),
    "evolution": lambda space, seed: EvolutionSampler(space),
}
#: Apart from the trainer's own draws of the same seed.
_CHOOSING = 1 << 32


@dataclass(frozen=True)
class SearchOptions:
    """How long to search.

    Attributes:
        rounds: Of training, learning and choosing.
        steps: In which the sampler learns, of a round; each judges a policy for every price.
        samples: Policies of a round among which the best is looked for.
        models: Policies whose gradients are averaged for a batch.
        judged: Pictures of the validation set by which one policy is judged.
        tuning_epochs: Of the chosen network under its policy, at ``tuning_rate``.
        prices: What all traffic of the ring costs a policy's reward, in accuracy; policies are
            sought for all of these, so that the front of accuracy and traffic is one search.
        held_out: Share of the training pictures to choose by.
        sampler: One of :data:`SAMPLERS`.
        train: Of the shared weights; its epochs are the rounds.
    """

    rounds: int = 60
    steps: int = 500
    samples: int = 100
    models: int = 1
    judged: int = 128
    tuning_epochs: int = 45
    tuning_rate: float = 1e-4
    prices: tuple[float, ...] = (0.0,)
    held_out: float = 0.1
    sampler: str = "controller"
    train: TrainOptions = field(default_factory=TrainOptions)


@dataclass(frozen=True)
class Candidate:
    """A policy that was judged.

    Attributes:
        accuracy: On the validation pictures that it was judged by.
        traffic: Its share of the ring's.
        reward: Accuracy less the price of its traffic.
    """

    policy: Policy
    accuracy: float
    traffic: float
    reward: float


class Search:
    """One search, round by round.

    The paper chooses by its test pictures; here they are never looked at: a share of the training
    pictures is held out to choose by.
    """

    def __init__(
        self, space: Space, data: Dataset, options: SearchOptions, *, seed: int = 0
    ) -> None:
        if options.sampler not in SAMPLERS:
            raise InputError(f"--sampler {options.sampler}: allowed are {', '.join(SAMPLERS)}.")
        self.space, self.options, self.seed = space, options, seed
        order = torch.randperm(len(data.train), generator=epoch_generator(seed, _CHOOSING)).numpy()
        held = max(1, round(options.held_out * len(data.train)))
        self.judged_by = data.train.take(order[:held])
        self.trained_on = data.train.take(order[held:])
        self.net = SeparableNet(space.architecture, seed=seed)
        self.net.fit_statistics(torch.from_numpy(self.trained_on.images).float() / 255)
        train = replace(
            options.train,
            epochs=options.rounds,
            seed=seed,
            flips=options.train.flips and not data.is_grey,
        )
        self.trainer = Trainer(self.net, self.trained_on, train)
        self.sampler = SAMPLERS[options.sampler](space, seed)
        self.best: list[Candidate] = []

    @property
    def round(self) -> int:
        """Rounds that are done."""
        return self.trainer.epoch

    def run_round(self) -> float:
        """Train the weights, let the sampler learn, and look for the best; return the mean loss."""
        draw = epoch_generator(self.seed, _CHOOSING + 1 + self.round)
        loss = self.trainer.train_epoch(self._draw_policies)
        prices = self.options.prices
        for _ in range(self.options.steps):
            proposals = self.sampler.propose(prices, draw)
            found = self._judge(proposals, draw)
            self.sampler.learn(proposals, [one.reward for one in found])
        rounds = [prices[number % len(prices)] for number in range(self.options.samples)]
        with torch.no_grad():
            found = self._judge(self.sampler.propose(rounds, draw), draw)
        self._keep(found)
        return loss

    def _draw_policies(self, draw: torch.Generator) -> Sequence[Policy]:
        prices = self.options.prices
        chosen = torch.randint(len(prices), (self.options.models,), generator=draw)
        with torch.no_grad():
            proposals = self.sampler.propose([prices[number] for number in chosen.tolist()], draw)
        return [self.space.policy(proposal.choices) for proposal in proposals]

    def _judge(self, proposals: Sequence[Proposal], draw: torch.Generator) -> list[Candidate]:
        """Each proposal on pictures that are drawn for all of them."""
        order = torch.randperm(len(self.judged_by), generator=draw)[: self.options.judged]
        pictures = self.judged_by.take(order.numpy())
        return [self._candidate(proposal, pictures) for proposal in proposals]

    def _candidate(self, proposal: Proposal, pictures: Pictures) -> Candidate:
        policy = self.space.policy(proposal.choices)
        accuracy = judge(self.net, policy, pictures)
        traffic = count_traffic(self.space.architecture, policy).share
        return Candidate(policy, accuracy, traffic, accuracy - proposal.price * traffic)

    def _keep(self, found: Sequence[Candidate]) -> None:
        """The front among what was found last: weights have changed since the round before."""
        self.best = front(found)

    def save(self, path: Path) -> None:
        """Write all that a search needs to go on."""
        tensors = {f"net.{name}": value for name, value in self.net.state_dict().items()}
        moments = self.trainer.optimiser.state_dict()["state"]
        for number, state in moments.items():
            tensors[f"momentum.{number}"] = state["momentum_buffer"]
        tensors |= {f"sampler.{name}": value for name, value in self.sampler.state().items()}
        checkpoint.save(path, self.space.architecture, tensors, self._facts())

    def restore(self, path: Path) -> None:
        """Go on from a file.

        Raises:
            InputError: It cannot be read, or is of another search.
        """
        _, facts, tensors = checkpoint.load(path, self.space.architecture)
        own = self._facts()
        for name in ("space", "seed", "sampler"):
            if facts.get(name) != own[name]:
                raise InputError(
                    f"Checkpoint '{path}' is of another search: its {name} is {facts.get(name)},"
                    f" not {own[name]}.",
                    subject=str(path),
                )
        self.net.load_state_dict(_under("net.", tensors))
        optimiser = self.trainer.optimiser
        buffers = _under("momentum.", tensors)
        state = {int(number): {"momentum_buffer": value} for number, value in buffers.items()}
        groups = optimiser.state_dict()["param_groups"]
        optimiser.load_state_dict({"state": state, "param_groups": groups})
        self.sampler.restore(_under("sampler.", tensors))
        self.trainer.epoch = facts["round"]

    def _facts(self) -> dict[str, Any]:
        space = self.space
        kind = {"staleness": space.staleness, "sparse": space.sparse, "halves": space.halves}
        return {
            "space": kind,
            "seed": self.seed,
            "sampler": self.options.sampler,
            "round": self.round,
        }


def front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those to which none is preferable in accuracy and traffic, the least traffic first."""
    kept: list[Candidate] = []
    for one in sorted(candidates, key=lambda c: (c.traffic, -c.accuracy)):
        if not kept or one.accuracy > kept[-1].accuracy:
            kept.append(one)
    return kept


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k[len(prefix) :]: value for k, value in tensors.items() if k.startswith(prefix)}
