"""A residual network as its blocks: what somebody's own network is read as, and converted to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from partita.separable.residual import AnyLayer, Block, ResidualNetwork, Shape


@dataclass(frozen=True)
class Converted(ResidualNetwork):
    """A network that is its list of blocks.

    Attributes:
        name: For people.
        before: Its stem.
        chain: Its blocks.
        behind: Its head.
    """

    name: str
    image: Shape
    classes: int
    before: tuple[AnyLayer, ...]
    chain: tuple[Block, ...]
    behind: tuple[AnyLayer, ...] = ()
    groups: int = 1
    standardises: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"'{self.name}'" if self.groups == 1 else f"'{self.name}' in {self.groups} groups"

    @property
    def stem(self) -> tuple[AnyLayer, ...]:
        """What comes before the first block."""
        return self.before

    @property
    def head(self) -> tuple[AnyLayer, ...]:
        """What comes behind the last block."""
        return self.behind

    def blocks(self) -> Iterator[Block]:
        """All blocks, in order."""
        return iter(self.chain)

    @property
    def stages(self) -> tuple[int, ...]:
        """Blocks of each stage."""
        return tuple(len(list(same)) for _, same in groupby(self.chain, lambda b: b.stage))
