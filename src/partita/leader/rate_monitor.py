"""What workers report of a running plan, as rates of links and slowness of devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from partita.execution.adapt import Measured
from partita.execution.durations import Pair
from partita.worker.messages import SendTotals, Stats

#: Shorter messages say more about threads than about their link.
_LEAST_MESSAGE_S = 0.002
#: Less computing than this between two looks is no measure.
_LEAST_COMPUTE_S = 0.001


@dataclass(frozen=True)
class Expected:
    """What a plan was priced with, to compare with.

    Attributes:
        compute_s: Per ``Compute`` step id, at slowness 1.
        per_message_s: Per link, the fixed cost of a message on it.
        stretch: Per link of a shared medium, how many times as long as alone its messages take,
            turns included; 1 where absent.
    """

    compute_s: Mapping[int, float]
    per_message_s: Mapping[Pair, float] = field(default_factory=dict)
    stretch: Mapping[Pair, float] = field(default_factory=dict)


class RateMonitor:
    """Turns sums since the deployment into measurements since the last look.

    Args:
        expected: Of the running plan.
        paced: Devices whose sends take as long as their links do; of others, sends say nothing.
    """

    def __init__(self, expected: Expected, paced: frozenset[str]) -> None:
        self._expected = expected
        self._paced = paced
        self._sent: dict[Pair, SendTotals] = {}
        self._worked: dict[int, tuple[int, float]] = {}

    def look(self, stats: Mapping[str, Stats]) -> Measured:
        """Return what has been measured since the last call.

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
        """Bytes per second on the wire; None where too little was sent to tell."""
        before = self._sent.get(pair) or SendTotals(pair[1], 0, 0.0)
        self._sent[pair] = now
        messages = now.messages - before.messages
        wire_s = (now.wire_s - before.wire_s) / self._expected.stretch.get(pair, 1.0)
        moved_s = wire_s - messages * self._expected.per_message_s.get(pair, 0.0)
        if messages == 0 or moved_s < messages * _LEAST_MESSAGE_S:
            return None
        return (now.bytes - before.bytes) / moved_s

    def _slowness(self, now: Stats) -> float | None:
        """Measured over priced seconds of computing; None where there was too little."""
        measured_s = priced_s = 0.0
        for worked in now.worked:
            count, busy_s = self._worked.get(worked.step, (0, 0.0))
            self._worked[worked.step] = (worked.count, worked.busy_s)
            measured_s += worked.busy_s - busy_s
            priced_s += (worked.count - count) * self._expected.compute_s.get(worked.step, 0.0)
        return measured_s / priced_s if priced_s >= _LEAST_COMPUTE_S else None
