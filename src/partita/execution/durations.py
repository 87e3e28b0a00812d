"""How long each step of a program takes: the cost model writes it, the simulation reads it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from partita.errors import PlanError
from partita.execution.clock import LinkClock, RateChange, SharedMedium

#: (source device, target device)
Pair = tuple[str, str]


class Port(NamedTuple):
    """One direction of a device's interface, which all its messages of that direction share.

    Attributes:
        name: Links that name the same port share it.
    """

    name: str
    bytes_per_s: float


@dataclass(frozen=True)
class Link:
    """One direction between two devices, predicted, emulated or real.

    Attributes:
        bandwidth_bytes_per_s: Rate before the first change of ``trace``.
        latency_s: From the last byte's leaving to its arrival.
        per_message_s: Fixed cost of one message beyond latency (input, output and protocol).
        medium: Links that name the same medium share its airtime; None shares nothing.
        trace: Changes of the rate as ``(time_s, bytes_per_s)``, increasing in time; empty for
            constant.
        ports: The sender's outward and the receiver's inward, where they have a limited one.
    """

    source: str
    target: str
    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    per_message_s: float = 0.0
    medium: str | None = None
    trace: tuple[RateChange, ...] = ()
    ports: tuple[Port, ...] = ()

    @property
    def pair(self) -> Pair:
        """The link's two ends."""
        return self.source, self.target

    @property
    def is_shared(self) -> bool:
        """Whether messages of other links can hold up this one's."""
        return self.medium is not None or bool(self.ports)

    def occupied_s(self, size_bytes: float, bytes_per_s: float | None = None) -> float:
        """The seconds that a message alone takes until its last byte has left.

        Args:
            bytes_per_s: The link's rate; that before all changes by default.
        """
        seconds = self.per_message_s + size_bytes / (bytes_per_s or self.bandwidth_bytes_per_s)
        return max([seconds, *(size_bytes / port.bytes_per_s for port in self.ports)])

    def bandwidth_at(self, time_s: float) -> float:
        """The bandwidth in bytes/s at ``time_s``: that of the last trace point not after it."""
        index = bisect_right(self.trace, (time_s, float("inf")))
        return self.trace[index - 1][1] if index else self.bandwidth_bytes_per_s

    def message_s(self, size_bytes: float) -> float:
        """The seconds of a message alone until it has arrived, at the rate of time 0."""
        return self.occupied_s(size_bytes, self.bandwidth_at(0.0)) + self.latency_s

    def at_rate(self, bytes_per_s: float) -> Link:
        """The link with another, constant bandwidth."""
        return replace(self, bandwidth_bytes_per_s=bytes_per_s, trace=())


@dataclass(frozen=True)
class Durations:
    """Seconds that each step of one program takes.

    Attributes:
        compute_s: Per ``Compute`` step id; each must be there.
        receive_s: Decoding, per ``Receive`` step id; 0 where absent.
        encode_s: Encoding, per ``Send`` step id; 0 where absent.
        load_s: Per ``Load`` step id; 0 where absent.
        deliver_s: Assembling the outputs of one request.
        feed_s: Preparing the inputs of one request.
        admit_s: The leader's overhead per request.
        links: Per (source, target); each that a stream uses must be there.
    """

    compute_s: Mapping[int, float]
    receive_s: Mapping[int, float] = field(default_factory=dict)
    encode_s: Mapping[int, float] = field(default_factory=dict)
    load_s: Mapping[int, float] = field(default_factory=dict)
    deliver_s: float = 0.0
    feed_s: float = 0.0
    admit_s: float = 0.0
    links: Mapping[Pair, Link] = field(default_factory=dict)


class LinkClocks:
    """The clocks of all links of a run, made when first asked for."""

    def __init__(self, links: Mapping[Pair, Link]) -> None:
        self._links = links
        self._clocks: dict[Pair, LinkClock] = {}
        self._mediums: dict[str, SharedMedium] = {}
        self._ports: dict[str, SharedMedium] = {}

    def between(self, source: str, target: str) -> LinkClock:
        """The clock of the link from ``source`` to ``target``.

        Raises:
            PlanError: There is no such link.
        """
        pair = (source, target)
        clock = self._clocks.get(pair)
        if clock is None:
            clock = self._clocks[pair] = self._make(pair)
        return clock

    def is_shared(self, source: str, target: str) -> bool:
        """Whether the link takes turns with others on a medium or a port."""
        return self._spec((source, target)).is_shared

    def _spec(self, pair: Pair) -> Link:
        try:
            return self._links[pair]
        except KeyError:
            raise PlanError(
                f"The plan sends from {pair[0]!r} to {pair[1]!r}, but there is no such link. "
                "Add the link to the cluster, or keep both steps on one device.",
                subject=f"{pair[0]}->{pair[1]}",
            ) from None

    def _make(self, pair: Pair) -> LinkClock:
        spec = self._spec(pair)
        medium = None
        if spec.medium is not None:
            medium = self._mediums.setdefault(spec.medium, SharedMedium())
        return LinkClock(
            spec.bandwidth_bytes_per_s,
            spec.latency_s,
            spec.per_message_s,
            trace=spec.trace,
            medium=medium,
            ports=[
                (self._ports.setdefault(port.name, SharedMedium()), port.bytes_per_s)
                for port in spec.ports
            ],
        )
