"""When a message that is given to a link now will have left, and when it will be there.

One clock for both worlds: the simulation asks it, and the shaped fabric paces real messages by it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

#: From a time on (seconds), a link carries so many bytes per second.
RateChange = tuple[float, float]


class TransferTimes(NamedTuple):
    """One message on a link, in seconds on the caller's clock.

    Attributes:
        start_s: The link takes the message up.
        end_s: The last byte has left; the link is free again.
        arrive_s: The last byte is there.
    """

    start_s: float
    end_s: float
    arrive_s: float


class SharedMedium:
    """What several links take turns on: one radio channel, or one direction of a device's port."""

    def __init__(self) -> None:
        self.free_at_s = -math.inf


class LinkClock:
    """A directed link that carries one message at a time.

    Args:
        bandwidth_bytes_per_s: Rate, before the first change of ``trace``; may be infinite.
        latency_s: From the last byte's leaving to its arrival; does not occupy the link.
        per_message_s: Fixed cost of a message; occupies the link.
        trace: Changes of the rate, times increasing; a rate of 0 is an outage.
        medium: What this link shares with others; None for a medium of its own.
        ports: Those that messages pass, in the order of the way, with their rates in bytes per
            second. A port takes a message's bytes at its own rate, behind those that were given to
            it before and as they come from the port before, while the link carries them: the
            slowest of all ends the message.

    Raises:
        ValueError: A rate or time is negative, the trace is out of order or ends at rate 0.

    >>> LinkClock(1000.0, latency_s=0.5).reserve(2.0, 500)
    TransferTimes(start_s=2.0, end_s=2.5, arrive_s=3.0)
    """

    def __init__(
        self,
        bandwidth_bytes_per_s: float,
        latency_s: float = 0.0,
        per_message_s: float = 0.0,
        *,
        trace: Sequence[RateChange] = (),
        medium: SharedMedium | None = None,
        ports: Sequence[tuple[SharedMedium, float]] = (),
    ) -> None:
        if trace or not bandwidth_bytes_per_s > 0 or latency_s < 0 or per_message_s < 0:
            _check_link(bandwidth_bytes_per_s, latency_s, per_message_s, trace)
        self.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self.latency_s = latency_s
        self.per_message_s = per_message_s
        self.trace = tuple(trace)
        self._times = [time_s for time_s, _ in self.trace]
        self.free_at_s = -math.inf
        self._medium = medium
        self._ports = tuple(ports)

    def set_trace(self, trace: Sequence[RateChange]) -> None:
        """Take other changes of the rate from now on; they are as the constructor takes them."""
        _check_link(self.bandwidth_bytes_per_s, self.latency_s, self.per_message_s, trace)
        self.trace = tuple(trace)
        self._times = [time_s for time_s, _ in self.trace]

    def reserve(self, now_s: float, nbytes: int) -> TransferTimes:
        """Occupy the link with a message that is given to it at ``now_s``; the message's times.

        Messages are served in the order of the calls.
        """
        start_s = now_s if now_s > self.free_at_s else self.free_at_s
        medium = self._medium
        if medium is not None and medium.free_at_s > start_s:
            start_s = medium.free_at_s
        if self.trace:
            end_s = self._end_of(start_s + self.per_message_s, nbytes)
        else:
            end_s = start_s + self.per_message_s + nbytes / self.bandwidth_bytes_per_s
        begun_s = start_s
        for port, bytes_per_s in self._ports:
            # No byte comes to the receiver's port before it has left the sender's.
            begun_s = max(begun_s, port.free_at_s)
            port.free_at_s = begun_s + nbytes / bytes_per_s
            end_s = max(end_s, port.free_at_s)
        self.free_at_s = end_s
        if medium is not None:
            medium.free_at_s = end_s
        return TransferTimes(start_s, end_s, end_s + self.latency_s)

    def _end_of(self, start_s: float, nbytes: float) -> float:
        """The time when ``nbytes`` begun at ``start_s`` have left, across changes of the rate."""
        now_s, left = start_s, float(nbytes)
        first = bisect_right(self._times, start_s)
        rate = self.trace[first - 1][1] if first else self.bandwidth_bytes_per_s
        for index in range(first, len(self.trace)):
            change_s, next_rate = self.trace[index]
            room = rate * (change_s - now_s)
            if left <= room:
                break
            left -= room
            now_s, rate = change_s, next_rate
        return now_s + (left / rate if left else 0.0)


def _check_link(
    bandwidth: float, latency_s: float, per_message_s: float, trace: Sequence[RateChange]
) -> None:
    if not bandwidth > 0 or latency_s < 0 or per_message_s < 0:
        raise ValueError(
            f"link has bandwidth {bandwidth} B/s, latency {latency_s} s, message cost "
            f"{per_message_s} s; the first must be above 0, the others not below"
        )
    times = [time_s for time_s, _ in trace]
    if times != sorted(set(times)) or any(rate < 0 for _, rate in trace):
        raise ValueError("bandwidth trace must have increasing times and no negative rate")
    if trace and trace[-1][1] == 0:
        raise ValueError("bandwidth trace ends with rate 0; the last rate must be above 0")
