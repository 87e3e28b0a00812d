"""What sending a piece from one device to another takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from partita.planners.pricing.costs import StepCosts
from partita.program import type_bytes
from partita.regions import Region, wire_bytes

#: A device, the number of one of its pieces, and the box that it owns of it.
Owner = tuple[int, int, Region]


class Transfer(NamedTuple):
    """One piece on its way.

    Attributes:
        source: Number of the sending device.
        piece: Which of the tensor's pieces on that device is sent.
        lane: Number of the pair of devices.
        encode_s: Before it is on the link.
        per_message_s: Fixed cost on the link.
        wire_s: Bytes over bandwidth.
        latency_s: From the last byte's leaving to its arrival.
        decode_s: After its arrival.
        size_bytes: In memory.
    """

    source: int
    piece: int
    lane: int
    encode_s: float
    per_message_s: float
    wire_s: float
    latency_s: float
    decode_s: float
    size_bytes: int


class Tensors(Protocol):
    """What wires ask of tensors."""

    def dtype(self, tensor: str) -> str:
        """Return the type of a tensor."""

    def is_kept(self, tensor: str) -> bool:
        """Whether a tensor must not leave its device."""


class TransferCosts:
    """Prices moves.

    Args:
        cost: Links, encoding and decoding.
        formats: Wire format of tensors that do not travel raw.
        tensors: Says the types of tensors, and which must not leave their device.
    """

    def __init__(
        self,
        cost: StepCosts,
        formats: Mapping[str, str],
        tensors: Tensors,
    ) -> None:
        self._cost = cost
        self._formats = formats
        self._tensors = tensors
        self._names = cost.cluster.names
        self._links = [[cost.links.get((a, b)) for b in self._names] for a in self._names]
        self._rates = [
            [0.0 if link is None else -link.bandwidth_bytes_per_s for link in row]
            for row in self._links
        ]

    def nearest(self, target: int, owners: Sequence[Owner]) -> Sequence[Owner]:
        """Return owners, those with the fastest link to ``target`` first."""
        if len(owners) < 2:
            return owners
        rates = self._rates
        return sorted(owners, key=lambda owner: rates[owner[0]][target])

    def move(self, owner: tuple[int, int], target: int, tensor: str, count: int) -> Transfer | None:
        """Return how ``count`` elements of an owner's piece travel; None where they must not."""
        source, piece = owner
        link = self._links[source][target]
        if link is None or self._tensors.is_kept(tensor):
            return None
        dtype, wire = self._tensors.dtype(tensor), self._formats.get(tensor, "raw")
        size = count * type_bytes(dtype)
        names = self._names
        return Transfer(
            source,
            piece,
            source * len(names) + target,
            self._cost.encode_s(names[source], wire, size),
            link.per_message_s,
            wire_bytes((count,), dtype, wire) / link.bandwidth_bytes_per_s,
            link.latency_s,
            self._cost.decode_s(names[target], wire, size),
            size,
        )
