"""Searching a policy and training the network under it (section 3.2): rounds of three stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from partita.errors import InputError
from partita.separable import checkpoint
from partita.separable.controller import Space
from partita.separable.data import Dataset, Pictures
from partita.separable.options import SearchOptions, TrainOptions
from partita.separable.policy import Policy
from partita.separable.samplers import (
    EvolutionSampler,
    Proposal,
    RandomSampler,
    ReinforceSampler,
    Sampler,
)
from partita.separable.traffic import count_traffic
from partita.separable.training import (
    Tell,
    Trainer,
    divide,
    epoch_generator,
    judge,
    prefixed,
    start_net,
    tell_nobody,
    under,
)
from partita.separable.trials import Trial

SAMPLERS: dict[str, Callable[[Space, int], Sampler]] = {
    "controller": lambda space, seed: ReinforceSampler(space, seed=seed),
    "random": lambda space, seed: RandomSampler(space),
    "evolution": lambda space, seed: EvolutionSampler(space),
}
#: Apart from the trainer's own draws of the same seed.
_CHOOSING = 1 << 32


@dataclass(frozen=True)
class Aim:
    """What is searched for, and by whom.

    Attributes:
        sampler: One of :data:`SAMPLERS`.
        prices: What all traffic of the ring, in bytes, costs a policy's reward, in accuracy;
            policies are sought for all of these.
        drop_messages: Share of the messages that do not arrive in training.

    Raises:
        InputError: There is no such sampler, or no price.
    """

    sampler: str = "controller"
    prices: tuple[float, ...] = (0.0,)
    drop_messages: float = 0.0

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise InputError(f"--sampler {self.sampler}: allowed are {', '.join(SAMPLERS)}.")
        if not self.prices or len(set(self.prices)) < len(self.prices):
            raise InputError("--prices: allowed are numbers with commas between, each once.")


@dataclass(frozen=True)
class Candidate:
    """A policy that was judged.

    Attributes:
        accuracy: On the validation pictures that it was judged by.
        traffic: The share of its bytes in the ring's.
        price: For which it was proposed.
    """

    policy: Policy
    accuracy: float
    traffic: float
    price: float

    @property
    def reward(self) -> float:
        """Accuracy less the price of its traffic."""
        return self.accuracy - self.price * self.traffic

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Candidate:
        """The candidate that :meth:`facts` tells."""
        return cls(**{**facts, "policy": Policy.from_facts(facts["policy"])})

    def facts(self) -> dict[str, Any]:
        """The candidate for JSON."""
        return {**asdict(self), "policy": self.policy.facts()}


@dataclass(frozen=True)
class Choice:
    """A policy to train a network under.

    Attributes:
        prices: At which it is the best.
    """

    policy: Policy
    prices: tuple[float, ...]


class Search:
    """One search, round by round.

    The paper chooses by its test pictures; here they are never looked at: a share of the training
    pictures is held out to choose by.

    Attributes:
        found: Those that the last round looked for the best among; weights have changed since the
            rounds before.
        losses: The mean loss of each round.
    """

    def __init__(
        self,
        space: Space,
        data: Dataset,
        options: SearchOptions,
        train: TrainOptions,
        aim: Aim | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.space, self.options, self.seed = space, options, seed
        self.aim = aim or Aim()
        self.part = divide(data, replace(train, epochs=options.rounds), seed)
        self.net = start_net(space.architecture, self.part.train, seed=seed)
        self.trainer = Trainer(
            self.net,
            self.part.train,
            self.part.options,
            seed=seed,
            drop_messages=self.aim.drop_messages,
        )
        self.sampler = SAMPLERS[self.aim.sampler](space, seed)
        self.found: list[Candidate] = []
        self.losses: list[float] = []

    @property
    def round(self) -> int:
        """Rounds that are done."""
        return self.trainer.epoch

    @property
    def best(self) -> list[Candidate]:
        """The front among what was found last."""
        return front(self.found)

    def run_round(self, tell: Tell = tell_nobody) -> float:
        """Train the weights, let the sampler learn, and look for the best; return the mean loss."""
        draw = epoch_generator(self.seed, _CHOOSING + 1 + self.round)
        loss = self.trainer.train_epoch(self._draw_policies, tell)
        prices, options = self.aim.prices, self.options
        for step in range(options.steps):
            tell(step, options.steps, "learning whom to let send")
            proposals = self.sampler.propose(prices, draw)
            found = self._judge(proposals, draw)
            self.sampler.learn(proposals, [one.reward for one in found])
        tell(0, 1, "choosing")
        rounds = [prices[number % len(prices)] for number in range(options.samples)]
        with torch.no_grad():
            self.found = self._judge(self.sampler.propose(rounds, draw), draw)
        self.losses.append(loss)
        return loss

    def choose(self) -> list[Choice]:
        """The best policy for each price, by all validation pictures; each policy once.

        A few pictures flatter whoever is the best by them: the front is judged anew by all.
        """
        judged = [
            replace(one, accuracy=judge(self.net, one.policy, self.part.judged))
            for one in self.best
        ]
        chosen: dict[Policy, list[float]] = {}
        for price in self.aim.prices:
            best = max((replace(one, price=price) for one in judged), key=lambda one: one.reward)
            chosen.setdefault(best.policy, []).append(price)
        return [Choice(policy, tuple(prices)) for policy, prices in chosen.items()]

    def trial(self, chosen: Choice) -> Trial:
        """The shared weights, to be trained on under one policy."""
        options = replace(
            self.part.options,
            epochs=max(1, self.options.tuning_epochs),
            rate=self.options.tuning_rate,
            warmup=0.0,
        )
        part = replace(self.part, options=options)
        dropped = self.aim.drop_messages
        return Trial(self.net, chosen.policy, part, self.seed, dropped, chosen.prices)

    def _draw_policies(self, draw: torch.Generator) -> Sequence[Policy]:
        prices = self.aim.prices
        chosen = torch.randint(len(prices), (self.options.models,), generator=draw)
        with torch.no_grad():
            proposals = self.sampler.propose([prices[number] for number in chosen.tolist()], draw)
        return [self.space.policy(proposal.choices) for proposal in proposals]

    def _judge(self, proposals: Sequence[Proposal], draw: torch.Generator) -> list[Candidate]:
        """Each proposal on pictures that are drawn for all of them."""
        order = torch.randperm(len(self.part.judged), generator=draw)[: self.options.judged]
        pictures = self.part.judged.take(order.numpy())
        return [self._candidate(proposal, pictures) for proposal in proposals]

    def _candidate(self, proposal: Proposal, pictures: Pictures) -> Candidate:
        policy = self.space.policy(proposal.choices)
        accuracy = judge(self.net, policy, pictures, mixed=self.part.options.mixed)
        traffic = count_traffic(self.space.architecture, policy).byte_share
        return Candidate(policy, accuracy, traffic, proposal.price)

    def save(self, path: Path) -> None:
        """Write all that a search needs to go on."""
        tensors = self.trainer.state() | prefixed("sampler.", self.sampler.state())
        facts = {
            "run": self._facts(),
            "round": self.round,
            "losses": self.losses,
            "found": [one.facts() for one in self.found],
        }
        checkpoint.save(path, self.space.architecture, tensors, facts)

    def restore(self, path: Path) -> None:
        """Go on from a file.

        Raises:
            InputError: It cannot be read, or is of another search.
        """
        facts, tensors = checkpoint.load_run(path, self.space.architecture, self._facts())
        self.trainer.restore(tensors, facts["round"])
        self.sampler.restore(under("sampler.", tensors))
        self.losses = facts["losses"]
        self.found = [Candidate.from_facts(one) for one in facts["found"]]

    def _facts(self) -> dict[str, Any]:
        """What makes it this search and no other."""
        space = self.space
        return {
            "staleness": space.staleness,
            "sparse": space.sparse,
            "halves": space.halves,
            "seed": self.seed,
            "aim": asdict(self.aim),
            "search": asdict(self.options),
            **self.part.facts(),
        }


def front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those to which none is preferable in accuracy and traffic, the least traffic first."""
    kept: list[Candidate] = []
    for one in sorted(candidates, key=lambda c: (c.traffic, -c.accuracy)):
        if not kept or one.accuracy > kept[-1].accuracy:
            kept.append(one)
    return kept
