"""What sending a piece from one device to another takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple, Protocol

from partita.compile.placement import nearest_first
from partita.execution import Port
from partita.planners.pricing.costs import StepCosts
from partita.program import type_bytes
from partita.regions import Interval, Region, coded_bytes, wire_bytes


class Owner(NamedTuple):
    """A device that owns a box of a tensor.

    Attributes:
        piece: Which of its pieces of the tensor holds the box.
        box: What it owns.
        span: The box along the tensor's placement's one axis.
    """

    device: int
    piece: int
    box: Region
    span: Interval


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
        wire_bytes: On the link.
        ports: Numbers of the ports that it passes, and seconds that it occupies each.
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
    wire_bytes: int
    ports: tuple[tuple[int, float], ...] = ()

    @property
    def link_s(self) -> float:
        """From its beginning on an idle link and idle ports until its last byte has left."""
        seconds = self.per_message_s + self.wire_s
        return max([seconds, *(busy_s for _, busy_s in self.ports)]) if self.ports else seconds


class Tensors(Protocol):
    """What transfers ask of tensors."""

    def dtype(self, tensor: str) -> str:
        """The type of a tensor."""

    def is_kept(self, tensor: str) -> bool:
        """Whether a tensor must not leave its device."""


class TransferCosts:
    """Prices transfers and remembers them.

    Args:
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
        #: By target and source.
        self._rates = [
            [0.0 if link is None else link.bandwidth_bytes_per_s for link in column]
            for column in zip(*self._links, strict=True)
        ]
        #: By target: whether it has links from all others, equally fast.
        self._is_even = [
            len({*rates[:target], *rates[target + 1 :]}) < 2
            for target, rates in enumerate(self._rates)
        ]
        self._port_numbers: dict[Port, int] = defaultdict(count().__next__)
        self._known: dict[tuple[int, int, int, str, int], Transfer | None] = {}

    def nearest(self, target: int, owners: Sequence[Owner]) -> Sequence[Owner]:
        """Owners, those with the fastest link to ``target`` first."""
        if self._is_even[target]:
            return owners
        rates = self._rates[target]
        return nearest_first(owners, lambda owner: rates[owner.device])

    def move(self, owner: Owner, target: int, tensor: str, count: int) -> Transfer | None:
        """How ``count`` elements of an owner's piece travel; None where they must not."""
        key = (owner.device, owner.piece, target, tensor, count)
        try:
            return self._known[key]
        except KeyError:
            self._known[key] = transfer = self._move(owner, target, tensor, count)
            return transfer

    def _move(self, owner: Owner, target: int, tensor: str, count: int) -> Transfer | None:
        source = owner.device
        link = self._links[source][target]
        if link is None or self._tensors.is_kept(tensor):
            return None
        dtype, wire = self._tensors.dtype(tensor), self._formats.get(tensor, "raw")
        size = count * type_bytes(dtype)
        on_wire, coded = wire_bytes((count,), dtype, wire), coded_bytes(count, dtype, wire)
        names = self._names
        return Transfer(
            source,
            owner.piece,
            source * len(names) + target,
            self._cost.encode_s(names[source], wire, coded),
            link.per_message_s,
            on_wire / link.bandwidth_bytes_per_s,
            link.latency_s,
            self._cost.decode_s(names[target], wire, coded),
            size,
            on_wire,
            tuple((self._port_numbers[port], on_wire / port.bytes_per_s) for port in link.ports),
        )
