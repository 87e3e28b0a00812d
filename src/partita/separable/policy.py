"""What groups exchange: staleness, permutations, sparsity, cast (sections 3.2 and 3.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from partita.errors import ModelError
from partita.separable.permutations import number_of, permutation
from partita.separable.residual import Block, ResidualNetwork

#: Shares of the channels that are sent (table 4): the paper's formula (10) divides by one more.
LEVELS = tuple(0.5 + step / 16 for step in range(9))


@dataclass(frozen=True)
class Decision:
    """What is exchanged in one window.

    Attributes:
        permutation: Number of the permutation (:func:`partita.separable.permutations.permutation`).
        level: Index into :data:`LEVELS`; the last one sends all channels.
    """

    permutation: int
    level: int = len(LEVELS) - 1

    def __post_init__(self) -> None:
        if not 0 <= self.level < len(LEVELS):
            raise ModelError(
                f"level {self.level}: allowed are 0 to {len(LEVELS) - 1}", subject="policy"
            )


@dataclass(frozen=True)
class Exchange:
    """One window's messages.

    Attributes:
        taken: Index of the block behind which features are taken.
        added: Index of the block behind which they are added; ``taken`` if nothing is stale.
        targets: By group: to which group it sends; to itself means nothing.
        channels: How many of the first channels are sent.
        halves: Whether they travel as 16-bit floats.
    """

    taken: int
    added: int
    targets: tuple[int, ...]
    channels: int
    halves: bool

    def messages(self) -> Iterator[tuple[int, int]]:
        """Sender and receiver of each message."""
        for sender, receiver in enumerate(self.targets):
            if sender != receiver:
                yield sender, receiver


@dataclass(frozen=True)
class Policy:
    """All decisions of a network.

    Attributes:
        staleness: Blocks of a window: features that are taken behind its first are added behind
            its last.
        decisions: One per window, in order.
        halves: Whether features travel as 16-bit floats.
        lost: Groups from which nothing comes, as their device is gone.
    """

    decisions: tuple[Decision, ...]
    staleness: int = 1
    halves: bool = False
    lost: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str, staleness: int = 1, *, halves: bool = False) -> Policy:
        """The policy that :meth:`__str__` writes: ``7,16:6,0``.

        Raises:
            ModelError: Another form.
        """
        decisions = []
        for part in text.split(","):
            number, _, level = part.strip().partition(":")
            if not number.isdecimal() or not (level.isdecimal() or ":" not in part):
                raise ModelError(
                    f"'{text}' is no policy: expected a permutation's number for each window, with"
                    " commas between, each with :LEVEL where not all channels are sent",
                    subject="policy",
                )
            chosen = Decision(int(number))
            decisions.append(replace(chosen, level=int(level)) if level else chosen)
        return cls(tuple(decisions), staleness, halves)

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Policy:
        """The policy that :meth:`facts` tells."""
        return replace(
            cls.parse(facts["decisions"], facts["staleness"], halves=facts["halves"]),
            lost=tuple(facts["lost"]),
        )

    def facts(self) -> dict[str, Any]:
        """The policy for JSON."""
        return {**asdict(self), "decisions": str(self), "lost": list(self.lost)}

    def __str__(self) -> str:
        whole = len(LEVELS) - 1
        return ",".join(
            f"{one.permutation}" + (f":{one.level}" if one.level < whole else "")
            for one in self.decisions
        )

    def without(self, group: int) -> Policy:
        """The policy when a group's device is gone, from the first block on.

        Raises:
            ModelError: It is group 0, which answers.
        """
        if group < 1:
            raise ModelError(f"group {group}: allowed are groups from 1; group 0 answers")
        return replace(self, lost=(*self.lost, group))

    def exchanges(self, network: ResidualNetwork) -> list[Exchange]:
        """The messages of every window that has any.

        Raises:
            ModelError: The policy is for another network.
        """
        windows = count_windows(network, self.staleness)
        if len(self.decisions) != windows:
            raise ModelError(
                f"{len(self.decisions)} decisions: {network} with staleness"
                f" {self.staleness} has {windows} windows",
                subject="policy",
            )
        blocks = list(network.blocks())
        found = []
        for window, decision in enumerate(self.decisions):
            first = window * self.staleness
            targets = tuple(
                group if group in self.lost else target
                for group, target in enumerate(permutation(decision.permutation, network.groups))
            )
            channels = kept_channels(blocks[first], decision.level)
            last = first + self.staleness - 1
            exchange = Exchange(first, last, targets, channels, self.halves)
            if any(exchange.messages()):
                found.append(exchange)
        return found


def silent(network: ResidualNetwork, staleness: int = 1) -> Policy:
    """The policy under which nothing is sent."""
    count = count_windows(network, staleness)
    return Policy((Decision(0),) * count, staleness)


def rotating(network: ResidualNetwork, staleness: int = 1) -> Policy:
    """The policy under which all groups send all channels: to the next group, then the second next.

    A start for networks that nothing has been searched for.
    """
    groups, count = network.groups, count_windows(network, staleness)
    shifts = [window % max(1, groups - 1) + 1 for window in range(count)]
    targets = (tuple((group + shift) % groups for group in range(groups)) for shift in shifts)
    return Policy(tuple(Decision(number_of(each)) for each in targets), staleness)


def kept_channels(block: Block, level: int) -> int:
    """How many channels of a group's features behind a block are sent (formula 10)."""
    return math.floor(block.channels * LEVELS[level])


def count_windows(network: ResidualNetwork, staleness: int) -> int:
    """Decisions of a network.

    Raises:
        ModelError: Windows would cross a stage.
    """
    common = math.gcd(*network.stages)
    if staleness < 1 or common % staleness:
        divisors = [s for s in range(1, common + 1) if not common % s]
        counts = ", ".join(map(str, sorted(set(network.stages))))
        raise ModelError(
            f"staleness = {staleness}: allowed for {counts} blocks of a stage are"
            f" {', '.join(map(str, divisors))}",
            subject="staleness",
        )
    return sum(network.stages) // staleness


def count_policies(network: ResidualNetwork, staleness: int, *, sparse: bool = False) -> int:
    """Size of the search space (section 4.3)."""
    choices = math.factorial(network.groups) * (len(LEVELS) if sparse else 1)
    return int(choices ** count_windows(network, staleness))
