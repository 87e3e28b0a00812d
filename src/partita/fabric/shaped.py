"""Any fabric behind emulated links: rate, message cost and delay, in user space, no privileges."""

from __future__ import annotations

import heapq
import itertools
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from partita.errors import RunError
from partita.execution import Link, LinkClock
from partita.fabric.base import (
    CallHandler,
    DataCallback,
    Endpoint,
    ErrorCallback,
    IsOut,
    NoteCallback,
    Payload,
    WatchCallback,
)
from partita.fabric.callbacks import ignore_error, run_guarded
from partita.fabric.frames import STAMP_MARK, is_stamped
from partita.fabric.medium import FileMedium
from partita.waiting import Clock, MonotonicClock, set_timer_slack

Job = Callable[[], None]
#: Prefix of delayed frames: a byte that no frame begins with, and the arrival time.
_STAMP = struct.Struct("<Bd")
#: Wake this long before a piece is due, then wait on the clock: condition waits end up to 200 us
#: late even with the timer slack of 1 us, and a wakeup of the thread takes as long again.
_EARLY_S = 400e-6


class _PacedLink:
    """A link's clock with its locks."""

    def __init__(self, shape: Link) -> None:
        medium = FileMedium(shape.medium) if shape.medium is not None else None
        ports = [(FileMedium(port.name), port.bytes_per_s) for port in shape.ports]
        #: Held together, always in this order: two senders never wait for each other.
        self._shared = [*([medium] if medium else []), *(port for port, _ in ports)]
        self.lock = threading.Lock()
        self.latency_s = shape.latency_s
        self._trace = shape.trace
        self.clock = LinkClock(
            shape.bandwidth_at(0.0),
            shape.latency_s,
            shape.per_message_s,
            medium=medium,
            ports=ports,
        )

    def begin_trace(self, at_s: float) -> None:
        """Let the trace begin at a time of the clock."""
        with self.lock:
            self.clock.set_trace([(at_s + time_s, rate) for time_s, rate in self._trace])

    def reserve(self, now_s: float, size_bytes: int) -> tuple[float, float]:
        """The times in seconds at which the message has left, and arrives."""
        with self.lock, ExitStack() as stack:
            for shared in self._shared:
                stack.enter_context(shared.hold())
            transfer = self.clock.reserve(now_s, size_bytes)
        return transfer.end_s, transfer.arrive_s


class ShapedEndpoint:
    """Wraps an endpoint so that pieces and notes travel as on the given links.

    The real transfer begins at once and overlaps the emulated one: it costs no time of its own as
    long as it is faster. All processes must be on one host, because they share its clock. Calls,
    which deploy and ask, are not slowed.

    Args:
        inner: The endpoint that really sends; this one owns and closes it.
        links: Shape of the link to each target; what goes to others is not shaped, and endpoints
            that shape nothing can receive it.
        origin_s: When the traces begin, on the clock; the same in all processes. None leaves them
            to :meth:`begin_traces`.

    Attributes:
        late: Pieces that really arrived later than their emulated time.
    """

    def __init__(
        self,
        inner: Endpoint,
        links: Mapping[str, Link],
        *,
        origin_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = inner.name
        self.late = 0
        self._inner = inner
        self._links = {target: _PacedLink(shape) for target, shape in links.items()}
        if origin_s is not None:
            self.begin_traces(origin_s)
        self._clock: Clock = clock if clock is not None else MonotonicClock()
        self._error: ErrorCallback = ignore_error
        self._data = _DelayQueue(f"{self.name}-shaped-data", self._clock)
        self._notes = _DelayQueue(f"{self.name}-shaped-note", self._clock)

    def begin_traces(self, at_s: float) -> None:
        """Let the rates of all links follow their traces, which begin at ``at_s`` on the clock.

        May be called again: the traces then begin anew.
        """
        for link in self._links.values():
            link.begin_trace(at_s)

    def announce(self, info: bytes) -> None:
        """Make this endpoint visible; see :meth:`partita.fabric.Endpoint.announce`."""
        self._inner.announce(info)

    def send(self, target: str, header: bytes, payload: Payload) -> None:
        """Send one piece and return when its last byte would have left."""
        link = self._links.get(target)
        now_s = self._clock.now_s()
        if link is None:
            self._inner.send(target, header, payload)
            return
        size_bytes = memoryview(payload).nbytes
        left_s, there_s = link.reserve(now_s, size_bytes)
        self._inner.send(target, _stamp(there_s) + header, payload)
        self._clock.wait_until(left_s)

    def on_data(self, callback: DataCallback) -> None:
        """Set the callback for pieces; each is delivered at its emulated time."""

        def receive(source: str, header: bytes, payload: memoryview) -> None:
            if not is_stamped(header):
                self._run(lambda: callback(source, header, payload))
                return
            due_s = _read_stamp(source, header)
            if self._clock.now_s() > due_s:
                self.late += 1
            body = header[_STAMP.size :]
            self._data.put(due_s, lambda: self._run(lambda: callback(source, body, payload)))

        self._inner.on_data(receive)

    def call(self, target: str, method: str, body: bytes, timeout_s: float) -> bytes:
        """``target``'s answer, as fast as the inner endpoint has it."""
        return self._inner.call(target, method, body, timeout_s)

    def serve(self, handler: CallHandler) -> None:
        """Answer calls with ``handler``."""
        self._inner.serve(handler)

    def notify(self, target: str, body: bytes) -> None:
        """Send one note; it arrives after the link's latency."""
        link = self._links.get(target)
        if link is None:
            self._inner.notify(target, body)
            return
        self._inner.notify(target, _stamp(self._clock.now_s() + link.latency_s) + body)

    def on_notify(self, callback: NoteCallback) -> None:
        """Set the callback for notes; each is delivered at its emulated time."""

        def receive(source: str, body: bytes) -> None:
            if not is_stamped(body):
                self._run(lambda: callback(source, body))
                return
            due_s = _read_stamp(source, body)
            note = body[_STAMP.size :]
            self._notes.put(due_s, lambda: self._run(lambda: callback(source, note)))

        self._inner.on_notify(receive)

    def info(self, target: str, timeout_s: float = 2.0) -> bytes:
        """The announcement of ``target``."""
        return self._inner.info(target, timeout_s)

    def watch(self, callback: WatchCallback) -> None:
        """Report comings and goings."""
        self._inner.watch(callback)

    def peers(self) -> set[str]:
        """The names of the other endpoints that are alive now."""
        return self._inner.peers()

    def shut_out(self, is_out: IsOut) -> None:
        """Have nothing more to do with some."""
        self._inner.shut_out(is_out)

    def on_error(self, callback: ErrorCallback) -> None:
        """Set the callback for faults."""
        self._error = callback
        self._inner.on_error(callback)

    def close(self) -> None:
        """Leave the fabric; pieces that are still under way are lost."""
        self._inner.close()
        self._data.close()
        self._notes.close()

    def _run(self, job: Job) -> None:
        run_guarded(job, self._error, self.name)


class _DelayQueue:
    """Runs each job at its time, in order, on one thread."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Job]] = []
        self._numbers = itertools.count()
        self._condition = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._turn, name=f"partita-{name}", daemon=True)
        self._thread.start()

    def put(self, due_s: float, job: Job) -> None:
        """Run ``job`` at ``due_s``; jobs of the same time run in the order they were put."""
        with self._condition:
            heapq.heappush(self._heap, (due_s, next(self._numbers), job))
            if self._heap[0][2] is job:
                self._condition.notify()

    def close(self) -> None:
        """Drop what is left and end the thread."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def _turn(self) -> None:
        set_timer_slack()
        while (due := self._await_next()) is not None:
            due_s, _, job = due
            self._clock.wait_until(due_s)
            job()

    def _await_next(self) -> tuple[float, int, Job] | None:
        with self._condition:
            while not self._is_closed:
                wait_s = None
                if self._heap:
                    wait_s = self._heap[0][0] - self._clock.now_s() - _EARLY_S
                    if wait_s <= 0:
                        return heapq.heappop(self._heap)
                self._condition.wait(wait_s)
        return None


def _stamp(due_s: float) -> bytes:
    return _STAMP.pack(STAMP_MARK, due_s)


def _read_stamp(source: str, header: bytes) -> float:
    if len(header) < _STAMP.size:
        raise RunError(f"Frame from {source!r} rejected: no whole time stamp.", device=source)
    due_s: float = _STAMP.unpack_from(header)[1]
    if not 0 <= due_s < 1e12:
        raise RunError(f"Frame from {source!r} rejected: time stamp {due_s}.", device=source)
    return due_s
