"""What policies send, as the paper counts it and in bytes (section 4.4, tables 5 and 6)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from partita.separable.policy import Policy
from partita.separable.residual import ResidualNetwork


@dataclass(frozen=True)
class Traffic:
    """What travels for one image.

    Attributes:
        maps: Maps of a group's features, each of all channels, in floats, counted alike in all
            stages: the paper's unit.
        ring_maps: The same for the plain network whose groups' outputs are summed by ring
            all-reduce behind every block: 2(G-1) maps each.
        payload_bytes: What messages hold.
        needed_bytes: The same of messages that group 0, which answers, depends on: the last window
            has at most one, as what other groups receive then is read by nobody.
        ring_bytes: What the all-reduce sends.
    """

    maps: Fraction
    ring_maps: int
    payload_bytes: int
    needed_bytes: int
    ring_bytes: int

    @property
    def share(self) -> float:
        """Maps over those of the ring: the paper's communication cost."""
        return float(self.maps / self.ring_maps) if self.ring_maps else 0.0

    @property
    def byte_share(self) -> float:
        """Bytes over those of the ring."""
        return self.payload_bytes / self.ring_bytes if self.ring_bytes else 0.0


def count_traffic(network: ResidualNetwork, policy: Policy) -> Traffic:
    """What a policy sends for one image.

    Raises:
        ModelError: The policy is for another network.
    """
    blocks = list(network.blocks())
    maps, payload_bytes, needed_bytes = Fraction(0), 0, 0
    read = {0}  # groups whose features are read behind the window
    for exchange in reversed(policy.exchanges(network)):
        block = blocks[exchange.taken]
        number_bytes = 2 if exchange.halves else 4
        message_bytes = exchange.channels * block.size[0] * block.size[1] * number_bytes
        messages = list(exchange.messages())
        needed = {sender for sender, receiver in messages if receiver in read}
        maps += Fraction(len(messages) * exchange.channels * number_bytes, block.channels * 4)
        payload_bytes += len(messages) * message_bytes
        needed_bytes += len(needed) * message_bytes
        read |= needed
    per_block = 2 * (network.groups - 1)
    ring_bytes = sum(per_block * b.channels * b.size[0] * b.size[1] * 4 for b in blocks)
    return Traffic(maps, per_block * len(blocks), payload_bytes, needed_bytes, ring_bytes)
