"""What happened, or will happen: one type for predicted and measured runs."""

from __future__ import annotations

import msgspec


class Span(msgspec.Struct, frozen=True):
    """One thing that one lane of one device did.

    Attributes:
        lane: ``compute``, ``receive``, ``load``, or ``send:<target>``.
        step: The program's step id.
        start_s: Seconds since the run's first input was fed, on the leader's clock.
    """

    device: str
    lane: str
    step: int
    label: str
    request: int
    start_s: float
    end_s: float


class DeviceUse(msgspec.Struct, frozen=True):
    """How busy a device's compute lane was, and the most memory it held for weights and pieces."""

    name: str
    busy_s: float
    peak_memory_bytes: int


class LinkUse(msgspec.Struct, frozen=True):
    """Payload bytes that went over a link, and how long its sending lane was busy."""

    source: str
    target: str
    bytes: int
    busy_s: float


class Report(msgspec.Struct, frozen=True):
    """One run, predicted or measured.

    Attributes:
        latencies_s: Per request, in order: from its feed to its delivery.
        makespan_s: First feed to last delivery.
        spans: What each lane did when; empty where tracing was off.
    """

    planner: str
    seed: int
    latencies_s: tuple[float, ...]
    makespan_s: float
    devices: tuple[DeviceUse, ...]
    links: tuple[LinkUse, ...]
    spans: tuple[Span, ...] = ()

    @property
    def images_per_second(self) -> float:
        """Requests answered per second of the run."""
        return len(self.latencies_s) / self.makespan_s if self.makespan_s > 0 else 0.0

    def quantile_s(self, fraction: float) -> float:
        """Return the latency that ``fraction`` of the requests do not exceed (nearest rank)."""
        ordered = sorted(self.latencies_s)
        return ordered[
            min(len(ordered) - 1, max(0, -(-int(fraction * 1000 * len(ordered)) // 1000) - 1))
        ]

    @property
    def mean_s(self) -> float:
        """Mean latency."""
        return sum(self.latencies_s) / len(self.latencies_s)
