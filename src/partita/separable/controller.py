"""The controller that learns which policies to sample (section 3.2): an LSTM, one choice a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partita.separable.permutations import number_of
from partita.separable.policy import LEVELS, Decision, Policy, count_windows
from partita.separable.residual import ResidualNetwork

_CELLS = 100
#: Up to so many groups all permutations are one choice, as in the paper; beyond, one choice is to
#: whom the next group sends among those that are left.
_MOST_AT_ONCE = 5


@dataclass(frozen=True)
class Space:
    """The policies to choose from.

    Attributes:
        sparse: Whether shares of the channels are chosen, too.
        halves: Whether features travel as 16-bit floats.
    """

    architecture: ResidualNetwork
    staleness: int = 1
    sparse: bool = False
    halves: bool = False

    @property
    def windows(self) -> int:
        """Decisions of a policy."""
        return count_windows(self.architecture, self.staleness)

    @property
    def heads(self) -> tuple[int, ...]:
        """How many ways there are of each choice that makes one decision."""
        groups = self.architecture.groups
        at_once = groups <= _MOST_AT_ONCE
        sends = (math.factorial(groups),) if at_once else tuple(range(groups, 1, -1))
        return (*sends, len(LEVELS)) if self.sparse else sends

    @property
    def size(self) -> int:
        """How many policies there are."""
        return int(math.prod(self.heads) ** self.windows)

    def policy(self, choices: Sequence[int]) -> Policy:
        """The policy that choices make: those of the first window, then the next."""
        length = len(self.heads)
        decisions = tuple(
            self._decision(choices[start : start + length])
            for start in range(0, len(choices), length)
        )
        return Policy(decisions, self.staleness, self.halves)

    def _decision(self, choices: Sequence[int]) -> Decision:
        level = choices[-1] if self.sparse else len(LEVELS) - 1
        sends = choices[: len(choices) - self.sparse]
        if len(sends) == 1:
            return Decision(sends[0], level)
        rest = list(range(self.architecture.groups))
        targets = [rest.pop(choice) for choice in sends]
        return Decision(number_of((*targets, *rest)), level)


@dataclass(frozen=True)
class Sampled:
    """Choices that were sampled together.

    Attributes:
        choices: (policies, choices).
        log_likelihood: (policies,).
        entropy: Summed over the choices, (policies,).
    """

    choices: Tensor
    log_likelihood: Tensor
    entropy: Tensor


class Controller(nn.Module):
    """Samples policies of a space; each choice is the next one's input.

    Args:
        seed: Of the first weights.
    """

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        super().__init__()
        self.space = space
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        try:
            self._cell = nn.LSTMCell(_CELLS, _CELLS)
            self._first = nn.Linear(1, _CELLS)
            self._embeddings = nn.ModuleList(nn.Embedding(ways, _CELLS) for ways in space.heads)
            self._heads = nn.ModuleList(nn.Linear(_CELLS, ways) for ways in space.heads)
        finally:
            torch.set_rng_state(state)

    def sample(self, prices: Tensor, draw: torch.Generator) -> Sampled:
        """As many policies as there are prices.

        Args:
            prices: What a policy's traffic costs its reward, (policies,): policies are chosen for
                it, so that one controller learns the front of accuracy and traffic.
        """
        inputs = self._first(prices[:, None])
        hidden = cell = torch.zeros_like(inputs)
        choices, likelihoods, entropies = [], [], []
        for _ in range(self.space.windows):
            for head, embedding in zip(self._heads, self._embeddings, strict=True):
                hidden, cell = self._cell(inputs, (hidden, cell))
                logs = torch.log_softmax(head(hidden), 1)
                with torch.no_grad():
                    choice = torch.multinomial(logs.exp(), 1, generator=draw)
                inputs = embedding(choice[:, 0])
                choices.append(choice)
                likelihoods.append(logs.gather(1, choice)[:, 0])
                entropies.append(-(logs.exp() * logs).sum(1))
        return Sampled(torch.cat(choices, 1), sum(likelihoods), sum(entropies))  # type: ignore[arg-type]
