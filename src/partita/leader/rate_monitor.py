"""Rates of links and slowness of devices, from the totals that workers report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from partita.execution.adapt import Measured
from partita.execution.durations import Pair
from partita.worker.messages import SendTotals, Stats

#: Shorter messages measure context switches (0.1 to 1 ms on two cores), not their link.
_LEAST_MESSAGE_S = 0.002
#: So do the seconds of messages of fewer bytes, however long these take: on a busy machine a few
#: bytes may wait for milliseconds. Not tuned: a packet holds as much on most networks.
_LEAST_MESSAGE_BYTES = 1024
#: Less priced computing than this between two samples is within the clock's and scheduler's noise.
_LEAST_COMPUTE_S = 0.001


@dataclass(frozen=True)
class Expected:
    """The durations that a plan was priced with.

    Attributes:
        compute_s: Per ``Compute`` step id, at slowness 1.
        per_message_s: Per link, the fixed cost of a message on it.
        stretch: Per link with a shared medium or port, its messages' time among others over that
            alone; 1 where absent.
    """

    compute_s: Mapping[int, float]
    per_message_s: Mapping[Pair, float] = field(default_factory=dict)
    stretch: Mapping[Pair, float] = field(default_factory=dict)


class RateMonitor:
    """Turns totals since the deployment into measurements since the last sample.

    Args:
        paced: Devices whose sends last as long as their links take; others only fill a buffer.
    """

    def __init__(self, expected: Expected, paced: frozenset[str]) -> None:
        self._expected = expected
        self._paced = paced
        self._sent: dict[Pair, SendTotals] = {}
        self._worked: dict[int, tuple[int, float]] = {}

    def sample(self, stats: Mapping[str, Stats]) -> Measured:
        """The measurements since the last call.

        Args:
            stats: Of the same epoch, per device that answered.
        """
        rates: dict[Pair, float] = {}
        slowness: dict[str, float] = {}
        for device, now in stats.items():
            factor = self._slowness(now)
            if factor is not None:
                slowness[device] = factor
            for sent in now.sent if device in self._paced else ():
                rate = self._rate((device, sent.target), sent)
                if rate is not None:
                    rates[device, sent.target] = rate
        return Measured(rates, slowness)

    def _rate(self, pair: Pair, now: SendTotals) -> float | None:
        """Bytes per second on the wire; None where too little was sent."""
        before = self._sent.get(pair) or SendTotals(pair[1], 0, 0.0)
        self._sent[pair] = now
        messages = now.messages - before.messages
        wire_s = (now.wire_s - before.wire_s) / self._expected.stretch.get(pair, 1.0)
        moved_s = wire_s - messages * self._expected.per_message_s.get(pair, 0.0)
        size = now.bytes - before.bytes
        if messages == 0 or size < messages * _LEAST_MESSAGE_BYTES:
            return None
        return size / moved_s if moved_s >= messages * _LEAST_MESSAGE_S else None

    def _slowness(self, now: Stats) -> float | None:
        """Measured over priced seconds of computing; None where there was too little."""
        measured_s = priced_s = 0.0
        for worked in now.worked:
            count, busy_s = self._worked.get(worked.step, (0, 0.0))
            self._worked[worked.step] = (worked.count, worked.busy_s)
            measured_s += worked.busy_s - busy_s
            priced_s += (worked.count - count) * self._expected.compute_s.get(worked.step, 0.0)
        return measured_s / priced_s if priced_s >= _LEAST_COMPUTE_S else None
