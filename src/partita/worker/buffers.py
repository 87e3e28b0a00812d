"""The arrays that an epoch holds, and the log of its steps and messages."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import islice

from partita.execution import QUANTILES, TimeHistogram
from partita.regions import Array
from partita.worker.messages import ComputeTotals, SendTotals, WorkerSpan

#: Spans kept per epoch, the oldest dropped first: about 35 MB, and 33 minutes of 100 steps/s.
MAX_SPANS = 200_000

#: A buffer's number and its array.
Written = tuple[int, Array]


class BufferTable:
    """The arrays and undecoded payloads of all requests under way, with their bytes."""

    def __init__(self) -> None:
        self._arrays: dict[int, dict[int, Array]] = {}
        self._unread: dict[tuple[int, int], memoryview] = {}
        self.bytes = 0
        self.peak_bytes = 0

    def of(self, request: int) -> dict[int, Array]:
        """The request's arrays by buffer id.

        Raises:
            KeyError: The request holds none.
        """
        return self._arrays[request]

    def keep(self, request: int, written: Iterable[Written]) -> None:
        """Store the arrays that a step wrote."""
        held = self._arrays.setdefault(request, {})
        for buffer, array in written:
            held[buffer] = array
            self._grow(array.nbytes)

    def drop(self, request: int, buffer: int) -> None:
        """Drop one array; nothing happens when it was never written."""
        held = self._arrays.get(request)
        array = held.pop(buffer, None) if held else None
        if array is not None:
            self._grow(-array.nbytes)
        if not held:
            self._arrays.pop(request, None)

    def arrive(self, stream: int, request: int, payload: memoryview) -> None:
        """Store a payload until its ``Receive`` step."""
        self._unread[stream, request] = payload
        self._grow(payload.nbytes)

    def is_unread(self, stream: int, request: int) -> bool:
        """Whether a payload of the stream and request waits for its ``Receive`` step."""
        return (stream, request) in self._unread

    def take(self, stream: int, request: int) -> memoryview:
        """Remove a payload and return it."""
        payload = self._unread.pop((stream, request))
        self._grow(-payload.nbytes)
        return payload

    def clear(self) -> None:
        """Drop all arrays and payloads."""
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
        self._rows: deque[tuple[str, int, int, float, float]] = deque(maxlen=MAX_SPANS)
        self.finished = 0
        self.busy_s: defaultdict[str, float] = defaultdict(float)
        self._sent: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
        self._computed: defaultdict[int, list[float]] = defaultdict(lambda: [0, 0.0])
        self._took: defaultdict[int, TimeHistogram] = defaultdict(TimeHistogram)

    def add(self, lane: str, step: int, request: int, start_s: float, end_s: float) -> None:
        """Log one finished step."""
        self.finished += 1
        self.busy_s[lane] += end_s - start_s
        if lane == "compute":
            totals = self._computed[step]
            totals[0] += 1
            totals[1] += end_s - start_s
            self._took[step].add(end_s - start_s)
        if self._trace:
            self._rows.append((lane, step, request, start_s, end_s))

    def spans(self, first: int, count: int) -> tuple[WorkerSpan, ...]:
        """At most ``count`` spans from index ``first`` on."""
        rows = self._rows.copy()
        return tuple(WorkerSpan(*row) for row in islice(rows, first, first + count))

    def add_sent(self, target: str, size_bytes: int, wire_s: float) -> None:
        """Log one message."""
        totals = self._sent[target]
        totals[0] += size_bytes
        totals[1] += 1
        totals[2] += wire_s

    def computed(self) -> tuple[ComputeTotals, ...]:
        """Runs and seconds of each ``Compute`` step."""
        return tuple(
            ComputeTotals(step, int(count), busy_s, *map(self._took[step].quantile_s, QUANTILES))
            for step, (count, busy_s) in list(self._computed.items())
        )

    def sent(self) -> tuple[SendTotals, ...]:
        """Bytes, messages and seconds per target."""
        return tuple(
            SendTotals(target, int(nbytes), self.busy_s[f"send:{target}"], int(messages), wire_s)
            for target, (nbytes, messages, wire_s) in list(self._sent.items())
        )
