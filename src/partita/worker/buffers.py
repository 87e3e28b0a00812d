"""What an epoch holds and what it did: pieces in memory, spans, bytes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import islice

from partita.execution.pieces import Array
from partita.worker.messages import Mark, Sent, Worked

#: Spans that a device keeps; older ones go first.
MOST_SPANS = 200_000

#: A buffer's number and its array.
Written = tuple[int, Array]


class BufferTable:
    """The arrays of all requests under way on a device, and the most bytes they took."""

    def __init__(self) -> None:
        self._arrays: dict[int, dict[int, Array]] = {}
        self._unread: dict[tuple[int, int], memoryview] = {}
        self.bytes = 0
        self.peak_bytes = 0

    def of(self, request: int) -> dict[int, Array]:
        """Return the request's arrays by buffer."""
        return self._arrays[request]

    def keep(self, request: int, written: Iterable[Written]) -> None:
        """Store what a step wrote."""
        held = self._arrays.setdefault(request, {})
        for buffer, array in written:
            held[buffer] = array
            self._grow(array.nbytes)

    def drop(self, request: int, buffer: int) -> None:
        """Forget one array; nothing happens when it was never written."""
        held = self._arrays.get(request)
        array = held.pop(buffer, None) if held else None
        if array is not None:
            self._grow(-array.nbytes)
        if not held:
            self._arrays.pop(request, None)

    def arrive(self, stream: int, request: int, payload: memoryview) -> None:
        """Keep a payload until its ``Receive``."""
        self._unread[stream, request] = payload
        self._grow(payload.nbytes)

    def is_unread(self, stream: int, request: int) -> bool:
        """Whether a payload of the stream and request waits here already."""
        return (stream, request) in self._unread

    def take(self, stream: int, request: int) -> memoryview:
        """Return the payload and forget it."""
        payload = self._unread.pop((stream, request))
        self._grow(-payload.nbytes)
        return payload

    def clear(self) -> None:
        """Forget everything."""
        self._arrays.clear()
        self._unread.clear()
        self.bytes = 0

    def _grow(self, by_bytes: int) -> None:
        self.bytes += by_bytes
        self.peak_bytes = max(self.peak_bytes, self.bytes)


class StepLog:
    """Spans, busy seconds per lane and bytes per target.

    Args:
        trace: Whether to keep spans; sums are always kept.
    """

    def __init__(self, trace: bool) -> None:
        self._trace = trace
        self._rows: deque[tuple[str, int, int, float, float]] = deque(maxlen=MOST_SPANS)
        self.finished = 0
        self.busy_s: defaultdict[str, float] = defaultdict(float)
        self._sent: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
        self._worked: defaultdict[int, list[float]] = defaultdict(lambda: [0, 0.0])

    def add(self, lane: str, step: int, request: int, start_s: float, end_s: float) -> None:
        """Write down one finished step."""
        self.finished += 1
        self.busy_s[lane] += end_s - start_s
        if lane == "compute":
            worked = self._worked[step]
            worked[0] += 1
            worked[1] += end_s - start_s
        if self._trace:
            self._rows.append((lane, step, request, start_s, end_s))

    def marks(self, first: int, count: int) -> tuple[Mark, ...]:
        """Return ``count`` spans from index ``first`` on."""
        rows = self._rows.copy()
        return tuple(Mark(*row) for row in islice(rows, first, first + count))

    def add_sent(self, target: str, size_bytes: int, wire_s: float) -> None:
        """Write down one message."""
        sent = self._sent[target]
        sent[0] += size_bytes
        sent[1] += 1
        sent[2] += wire_s

    def worked(self) -> tuple[Worked, ...]:
        """Return how often each ``Compute`` step ran, and how long."""
        return tuple(Worked(step, int(n), s) for step, (n, s) in list(self._worked.items()))

    def sent(self) -> tuple[Sent, ...]:
        """Return what went to each target."""
        return tuple(
            Sent(target, int(nbytes), self.busy_s[f"send:{target}"], int(messages), wire_s)
            for target, (nbytes, messages, wire_s) in list(self._sent.items())
        )
