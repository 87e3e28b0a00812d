"""Small writes that push out what Zenoh leaves in the buffer of a TLS connection.

Zenoh writes to TLS without flushing. What the socket does not take at once, up to 64 KiB, waits for
the connection's next write: on an idle one that is the keep-alive, half a second later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from partita.fabric.zenoh_options import KEEP_ALIVES, ZenohOptions

#: The least that a socket's own buffer takes (Linux: ``tcp_wmem``).
LEAST_BYTES = 16 * 1024
#: What 1 Gbit/s sends meanwhile, 250 kB, is about what the socket still holds when it takes more.
_FIRST_S = 0.005
#: Waits are an eighth of what has passed: no message is late by more, and 40 writes are the most.
_GROWTH = 1 / 8


class FlushSchedule:
    """When each target is written to again; times on the caller's clock.

    Args:
        most_s: Interval of the connection's keep-alive: where waits reach it, that does as well.
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._times: dict[str, tuple[float, float]] = {}

    def begin(self, target: str, now_s: float) -> bool:
        """Begin anew for a target; whether it was not waited for."""
        is_new = target not in self._times
        self._times[target] = (now_s, now_s + _FIRST_S)
        return is_new

    def take_due(self, now_s: float) -> list[str]:
        """The targets to write to now."""
        due = [target for target, (_, next_s) in self._times.items() if next_s <= now_s]
        for target in due:
            began_s = self._times[target][0]
            wait_s = max(_FIRST_S, (now_s - began_s) * _GROWTH)
            if wait_s < self._most_s:
                self._times[target] = (began_s, now_s + wait_s)
            else:
                del self._times[target]
        return due

    def next_s(self) -> float | None:
        """When the next is due; None where none is."""
        return min((next_s for _, next_s in self._times.values()), default=None)


class Flusher:
    """A thread of small writes after large ones; it begins with the first, and only under TLS.

    Args:
        options: Of the endpoint.
        write: Writes a few bytes to a target on the connection; called on the thread.
    """

    def __init__(self, options: ZenohOptions, write: Callable[[str], None]) -> None:
        self._is_needed = options.tls is not None
        self._write = write
        self._schedule = FlushSchedule(options.lease_s / KEEP_ALIVES)
        self._change = threading.Condition()
        self._is_closed = False
        name = f"partita-{options.name}-flush"
        self._thread = threading.Thread(target=self._turn, name=name, daemon=True)

    def wrote(self, target: str, size_bytes: int) -> None:
        """Push out what was written to ``target``, where the socket might not have taken all."""
        if not self._is_needed or size_bytes < LEAST_BYTES:
            return
        with self._change:
            if self._thread.ident is None and not self._is_closed:
                self._thread.start()
            if self._schedule.begin(target, time.monotonic()):
                self._change.notify()

    def close(self) -> None:
        """Let the thread end; one that a dead link holds up ends with the connection."""
        with self._change:
            self._is_closed = True
            self._change.notify()

    def _turn(self) -> None:
        while not self._is_closed:
            with self._change:
                now_s = time.monotonic()
                due = self._schedule.take_due(now_s)
                next_s = self._schedule.next_s()
                if not due and not self._is_closed:
                    self._change.wait(None if next_s is None else next_s - now_s)
            for target in due:
                self._write(target)
