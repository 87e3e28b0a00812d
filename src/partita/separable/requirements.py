"""Which devices and links a staleness serves (section 4.6, figure 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from partita.separable.policy import LEVELS, kept_channels
from partita.separable.residual import ResidualNetwork


@dataclass(frozen=True)
class Requirement:
    """What hides the transfers of one stage behind the blocks that are computed meanwhile.

    Attributes:
        macs: Multiply-accumulates of a block of one group.
        message_bits: What a group sends behind it.
    """

    stage: int
    macs: int
    message_bits: int

    def least_staleness(self, macs_per_s: float, bits_per_s: float) -> float:
        """The staleness from which a transfer takes no longer than the blocks of its window."""
        return self.message_bits / bits_per_s * macs_per_s / self.macs

    def least_bits_per_s(self, macs_per_s: float, staleness: float) -> float:
        """The rate of a link from which it does: the line of figure 5."""
        return self.message_bits * macs_per_s / (staleness * self.macs)


def requirements(
    network: ResidualNetwork, *, level: int = len(LEVELS) - 1, halves: bool = False
) -> list[Requirement]:
    """The requirement of each stage; the first is the hardest, as its maps are the largest."""
    found: list[Requirement] = []
    for block in network.blocks():
        if block.stage == len(found):
            positions = block.size[0] * block.size[1]
            bits = kept_channels(block, level) * positions * (16 if halves else 32)
            found.append(Requirement(block.stage, 0, bits))
        # The last block of a stage counts: its first one, which is narrower in, is the only other.
        found[-1] = Requirement(block.stage, block.count_macs(), found[-1].message_bits)
    return found


def least_staleness(
    network: ResidualNetwork, macs_per_s: float, bits_per_s: float, *, halves: bool = False
) -> int | None:
    """The least staleness of whole windows under which transfers are hidden in all stages.

    None where even one window for each stage is too short.
    """
    needed = max(
        one.least_staleness(macs_per_s, bits_per_s) for one in requirements(network, halves=halves)
    )
    blocks = math.gcd(*network.stages)
    fitting = (s for s in range(1, blocks + 1) if not blocks % s and s >= needed)
    return next(fitting, None) if math.isfinite(needed) else None


def least_bits_per_s(
    network: ResidualNetwork, macs_per_s: float, staleness: float, *, halves: bool = False
) -> float:
    """The rate of links from which a staleness hides transfers in all stages."""
    found = requirements(network, halves=halves)
    return max(one.least_bits_per_s(macs_per_s, staleness) for one in found)


def most_macs_per_s(
    network: ResidualNetwork, bits_per_s: float, staleness: float, *, halves: bool = False
) -> float:
    """The most that devices may compute per second where a staleness hides transfers."""
    found = requirements(network, halves=halves)
    return min(staleness * one.macs * bits_per_s / one.message_bits for one in found)
