"""Large messages leave a device's port one after the other, whoever they go to."""

from __future__ import annotations

import threading

from partita.waiting import Clock, MonotonicClock

#: Smaller messages do not wait: they hardly take anything from those under way. Not tuned.
LARGE_BYTES = 16_384


class PortTurns:
    """Turns of messages at a port.

    Messages to several devices at once would share the port evenly, so that all are there when the
    last one is. In turn the first is there early and the last no later. That is what programs are
    priced for (:class:`~partita.execution.LinkClock`).

    Args:
        clock: Of this host.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock if clock is not None else MonotonicClock()
        self._lock = threading.Lock()
        self._free_at_s = 0.0

    def reserve(self, size_bytes: int, bytes_per_s: float) -> float:
        """When all large messages before this one have left, in seconds on the clock.

        Args:
            size_bytes: Of this message.
            bytes_per_s: What the port carries, in this direction.
        """
        now_s = self._clock.now_s()
        if size_bytes < LARGE_BYTES:
            return now_s
        with self._lock:
            start_s = max(now_s, self._free_at_s)
            self._free_at_s = start_s + size_bytes / bytes_per_s
        return start_s

    def wait_until(self, start_s: float) -> None:
        """Block until a turn begins."""
        self._clock.wait_until(start_s)
