"""Who proposes policies: the controller, chance, evolution."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from partita.separable.controller import Controller, Sampled, Space

#: Of ENAS (Pham et al. 2018), which the paper follows; it gives none itself.
_RATE, _ENTROPY_WEIGHT, _DECAY = 3.5e-4, 1e-4, 0.95
#: Real et al. 2019: how many are kept, and how many the parent is the best of.
_POPULATION, _TOURNAMENT = 64, 16
#: Choices of a parent that change, in the mean.
_CHANGES = 1.5


@dataclass(frozen=True)
class Proposal:
    """A policy as a sampler proposed it.

    Attributes:
        choices: What makes it (:meth:`Space.policy`).
        price: What all of the ring's traffic would cost its reward.
    """

    choices: tuple[int, ...]
    price: float


class Sampler(Protocol):
    """Proposes policies, and learns from what they were worth."""

    def propose(self, prices: Sequence[float], draw: torch.Generator) -> list[Proposal]:
        """A policy for each price."""
        ...

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float]) -> None:
        """Take notice of what the last proposals were worth."""
        ...

    def state(self) -> Mapping[str, Tensor]:
        """All that it has learned."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        ...


class RandomSampler:
    """All policies alike; learns nothing. The paper's control (section 4.5)."""

    def __init__(self, space: Space) -> None:
        self._heads = space.heads * space.windows

    def propose(self, prices: Sequence[float], draw: torch.Generator) -> list[Proposal]:
        """A policy for each price."""
        return [Proposal(_draw_choices(self._heads, draw), price) for price in prices]

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float]) -> None:
        """Nothing."""

    def state(self) -> Mapping[str, Tensor]:
        """Nothing."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Nothing."""


class ReinforceSampler:
    """The controller, trained by REINFORCE; its baseline is each price's moving mean of rewards."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        self.controller = Controller(space, seed=seed)
        self._optimiser = torch.optim.Adam(self.controller.parameters(), _RATE)
        self._baselines: dict[float, float] = {}
        self._last: Sampled | None = None

    def propose(self, prices: Sequence[float], draw: torch.Generator) -> list[Proposal]:
        """A policy for each price."""
        self._last = self.controller.sample(torch.tensor(prices), draw)
        rows = self._last.choices.tolist()
        return [Proposal(tuple(row), price) for row, price in zip(rows, prices, strict=True)]

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float]) -> None:
        """One step of policy gradient on the last proposals."""
        assert self._last is not None
        sampled, self._last = self._last, None
        gains = torch.tensor(
            [self._gain(p.price, reward) for p, reward in zip(proposals, rewards, strict=True)]
        )
        loss = -(gains * sampled.log_likelihood + _ENTROPY_WEIGHT * sampled.entropy).mean()
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def _gain(self, price: float, reward: float) -> float:
        """What a reward is above the usual."""
        usual = self._baselines.get(price, reward)
        self._baselines[price] = _DECAY * usual + (1 - _DECAY) * reward
        return reward - usual

    def state(self) -> Mapping[str, Tensor]:
        """Weights, the optimiser's moments and the baselines."""
        found = {f"weight.{k}": v for k, v in self.controller.state_dict().items()}
        for number, moments in self._optimiser.state_dict()["state"].items():
            found |= {f"moment.{number}.{key}": value for key, value in moments.items()}
        if self._baselines:
            found["baselines"] = torch.tensor(list(self._baselines.items()), dtype=torch.float64)
        return found

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        weights = {k[len("weight.") :]: v for k, v in state.items() if k.startswith("weight.")}
        self.controller.load_state_dict(weights)
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in state.items():
            if key.startswith("moment."):
                _, number, name = key.split(".")
                moments.setdefault(int(number), {})[name] = value
        groups = self._optimiser.state_dict()["param_groups"]
        self._optimiser.load_state_dict({"state": moments, "param_groups": groups})
        self._baselines = dict(state["baselines"].tolist()) if "baselines" in state else {}


class EvolutionSampler:
    """Regularised evolution: the best of a few is changed a little, the oldest dies.

    Each price has a population of its own: rewards for different prices are not to be compared.

    Source: Real et al., "Regularized evolution for image classifier architecture search" (2019).
    """

    def __init__(self, space: Space) -> None:
        self._heads = space.heads * space.windows
        self._alive: dict[float, deque[tuple[tuple[int, ...], float]]] = {}

    def propose(self, prices: Sequence[float], draw: torch.Generator) -> list[Proposal]:
        """A policy for each price."""
        return [Proposal(self._child(price, draw), price) for price in prices]

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float]) -> None:
        """The proposals live."""
        for proposal, reward in zip(proposals, rewards, strict=True):
            self._population(proposal.price).append((proposal.choices, reward))

    def state(self) -> Mapping[str, Tensor]:
        """Who lives, the oldest of each price first, and what they were worth."""
        rows = [(price, *one) for price, alive in self._alive.items() for one in alive]
        if not rows:
            return {}
        prices, choices, rewards = zip(*rows, strict=True)
        return {
            "choices": torch.tensor(choices),
            "rewards": torch.tensor(rewards, dtype=torch.float64),
            "prices": torch.tensor(prices, dtype=torch.float64),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._alive.clear()
        if state:
            lists = (state[name].tolist() for name in ("prices", "choices", "rewards"))
            for price, choices, reward in zip(*lists, strict=True):
                self._population(price).append((tuple(choices), reward))

    def _population(self, price: float) -> deque[tuple[tuple[int, ...], float]]:
        return self._alive.setdefault(price, deque(maxlen=_POPULATION))

    def _child(self, price: float, draw: torch.Generator) -> tuple[int, ...]:
        alive = self._population(price)
        if len(alive) < _POPULATION:
            return _draw_choices(self._heads, draw)
        rivals = torch.randperm(len(alive), generator=draw)[:_TOURNAMENT].tolist()
        parent = max((alive[rival] for rival in rivals), key=lambda one: one[1])[0]
        fresh = _draw_choices(self._heads, draw)
        changes = torch.rand(len(parent), generator=draw) < _CHANGES / len(parent)
        return tuple(
            new if changed else old
            for old, new, changed in zip(parent, fresh, changes.tolist(), strict=True)
        )


def _draw_choices(heads: Sequence[int], draw: torch.Generator) -> tuple[int, ...]:
    return tuple(int(torch.randint(ways, (), generator=draw)) for ways in heads)
