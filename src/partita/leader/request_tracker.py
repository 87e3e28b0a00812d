"""Requests from admission to answer: fed in order, answered once, fed again on another epoch."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from partita.errors import BusyError, PartitaError, RunError
from partita.execution import Admission, Change, Route
from partita.fabric import Endpoint, PieceGate, PieceHeader, digest_stream, encode_header
from partita.fabric.frames import decode_header
from partita.leader.change_log import MOST_CHANGES
from partita.leader.deployment import Deployment, DeployOptions
from partita.leader.past_requests import PastRequest, PastRequests
from partita.leader.requests import AnswerFuture, Request
from partita.program import Stream
from partita.recent import Recent
from partita.regions import Array, decode_array, encode_array
from partita.worker.messages import FIRST_ANSWER, answer_streams, feed_streams

#: Answers that say what is usual, and the least that do. Not tuned.
_USUAL, _LEAST_USUAL = 20, 5


class _Epoch:
    """Numbers, streams and open requests of one deployment."""

    def __init__(self, deployment: Deployment, leader: str) -> None:
        program = deployment.program
        self.number, self.plan_hash = deployment.epoch, program.plan_hash
        self.feeds = [(s, digest_stream(s)) for s in feed_streams(program, leader)]
        self.answers = answer_streams(program, leader)
        self.gate = PieceGate(deployment.epoch, leader, self.answers)
        self.admission = Admission(program.routes, program.in_flight, program.shares)
        self.in_flight = program.in_flight
        self.open: dict[int, Request] = {}


class Counts(NamedTuple):
    """How many requests are where.

    Attributes:
        answers: Answered since the session began.
        open: Fed, without an answer.
        waiting: Not fed yet.
    """

    answers: int
    open: int
    waiting: int


class RequestTracker:
    """All requests of a session.

    Args:
        endpoint: The leader's endpoint; its data callback is taken over.
        deployment: Active.
        on_fault: Called when a request cannot be fed.
        remembered: Answered requests whose times are kept.

    Attributes:
        answers: Requests answered so far.
        past: The last answered requests.
        failed_s: When the run failed, on the monotonic clock; None where it did not.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        deployment: Deployment,
        on_fault: Callable[[RunError], None],
        *,
        remembered: int = DeployOptions.remembered,
    ) -> None:
        self.count = 0
        self.answers = 0
        self.past = PastRequests(remembered)
        self._firsts = Recent[float, float](MOST_CHANGES)
        self._awaited: list[float] = []
        self.error: PartitaError | None = None
        self.failed_s: float | None = None
        self._endpoint = endpoint
        self._on_fault = on_fault
        self._change = threading.Condition(threading.RLock())
        self._feeding = threading.Lock()
        self._waiting: deque[Request] = deque()
        self._is_paused = False
        self._epoch = _Epoch(deployment, endpoint.name)
        self._epochs = {deployment.epoch: self._epoch}
        endpoint.on_data(self._on_answer)

    def ask(self, arrays: tuple[Array, ...], wait_s: float | None = None) -> AnswerFuture:
        """Feed one request and return its future; blocks while there is no room.

        Args:
            wait_s: Longest wait for room; None waits as long as it takes.

        Raises:
            BusyError: There was no room in that time; the request is forgotten.
            PartitaError: The session has failed or is closed.
        """
        deadline_s = math.inf if wait_s is None else time.monotonic() + wait_s
        with self._change:
            if self.error is not None:
                raise self.error
            future = AnswerFuture()
            # A fed request cannot be called back; a cancelled future would take no result.
            future.set_running_or_notify_cancel()
            request = Request(self.count, arrays, future)
            self.count += 1
            self._waiting.append(request)
        while True:
            self._feed()
            with self._change:
                if request.number >= 0 or future.done():
                    return future
                if self._has_room:
                    continue
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    self._waiting.remove(request)
                    raise BusyError(
                        f"{len(self._all_open())} requests are under way, which is the most that"
                        " the program allows, or its plan is changing: ask again later."
                    )
                self._change.wait(min(1.0, left_s))

    def wait_below(self, limit: int, futures: Iterable[AnswerFuture]) -> None:
        """Wait until fewer than ``limit`` of ``futures`` are without a result."""
        with self._change:
            while sum(not future.done() for future in futures) >= limit:
                self._change.wait(1.0)

    def oldest(self) -> Request | None:
        """The oldest request without an answer that was fed."""
        with self._change:
            return min(self._all_open(), key=lambda request: request.index, default=None)

    def find(self, epoch: int, number: int) -> Request | None:
        """The request that has ``number`` under ``epoch`` and no answer yet."""
        with self._change:
            numbered = self._epochs.get(epoch)
            return numbered.open.get(number) if numbered is not None else None

    def is_drained(self, epoch: int) -> bool:
        """Whether no request of ``epoch`` is without its answer."""
        with self._change:
            return epoch not in self._epochs or not self._epochs[epoch].open

    def counts(self) -> Counts:
        """How many requests are answered, under way and waiting, all at one time."""
        with self._change:
            return Counts(self.answers, len(self._all_open()), len(self._waiting))

    def latest(self, since: int) -> list[PastRequest]:
        """The answered requests from the answer numbered ``since`` on, as far as known."""
        with self._change:
            return self.past.last(max(0, self.answers - since))

    def answered(self, first: int) -> list[PastRequest]:
        """The answered requests from index ``first`` on."""
        with self._change:
            return self.past.since(first)

    def usual_s(self, epoch: int) -> float:
        """The longest of the last latencies under ``epoch``; infinite where there are too few."""
        latest = [r for r in self.latest(self.answers - _USUAL) if r.epoch == epoch]
        times = [request.end_s - request.start_s for request in latest if not request.is_again]
        return max(times) if len(times) >= _LEAST_USUAL else math.inf

    def suspend(self) -> int:
        """Take back all requests without an answer and feed nothing until :meth:`resume`.

        Returns:
            How many there are.
        """
        with self._feeding, self._change:
            unanswered = sorted(self._all_open(), key=lambda request: request.index)
            for request in unanswered:
                request.number, request.outputs, request.is_again = -1, {}, True
            self._waiting.extendleft(reversed(unanswered))
            self._epochs.clear()
            self._is_paused = True
            return len(unanswered)

    def await_answers(self, changes: Iterable[Change]) -> None:
        """Keep when the first answer after each switch comes, or came, whatever comes after it."""
        with self._change:
            for switched_s in (c.switched_s for c in changes if c.switched_s is not None):
                first_s = self.past.first_end_s(switched_s)
                if first_s is None:
                    self._awaited.append(switched_s)
                else:
                    self._firsts[switched_s] = first_s

    def first_after(self, switched_s: float) -> float | None:
        """When the first answer came after a switch that was awaited; None where none did."""
        with self._change:
            return self._firsts.get(switched_s)

    def pause(self) -> None:
        """Feed nothing until :meth:`resume`; fed requests go on to their answers."""
        with self._feeding, self._change:
            self._is_paused = True

    def resume(self, deployment: Deployment) -> None:
        """Feed under the epoch of ``deployment``; requests fed under another one stay there."""
        with self._feeding, self._change:
            self._epochs = {n: epoch for n, epoch in self._epochs.items() if epoch.open}
            if deployment.epoch != self._epoch.number:
                self._epoch = _Epoch(deployment, self._endpoint.name)
            self._epochs[deployment.epoch] = self._epoch
            self._is_paused = False
            self._change.notify_all()
        self._feed()

    def fail(self, error: PartitaError) -> None:
        """End all requests, also later ones, with ``error``; the first error counts."""
        with self._change:
            if self.error is None:
                self.failed_s = time.monotonic()
            self.close(error)

    def close(self, error: PartitaError) -> None:
        """End all requests as :meth:`fail` does, though nothing is wrong."""
        with self._change:
            self.error = self.error or error
            unanswered = [*self._all_open(), *self._waiting]
            for epoch in self._epochs.values():
                epoch.open.clear()
            self._waiting.clear()
            for request in unanswered:
                if request.future is not None:
                    request.future.set_exception(self.error)
            self._change.notify_all()

    def _all_open(self) -> list[Request]:
        return [request for epoch in self._epochs.values() for request in epoch.open.values()]

    @property
    def _has_room(self) -> bool:
        """Whether one more may be fed; open requests of older epochs count, too."""
        epoch = self._epoch
        if self._is_paused or not epoch.admission.has_room:
            return False
        return len(self._all_open()) < epoch.in_flight

    def _feed(self) -> None:
        """Admit waiting requests while there is room, in order."""
        while True:
            with self._feeding:
                with self._change:
                    if not self._waiting or not self._has_room:
                        return
                    request, epoch = self._waiting.popleft(), self._epoch
                    request.number, route = epoch.admission.admit()
                    request.epoch = epoch.number
                    request.start_s = request.start_s or time.monotonic()
                    epoch.open[request.number] = request
                    self._change.notify_all()
                try:
                    self._send(request, epoch.feeds, route)
                except RunError as error:
                    self._on_fault(error)

    def _send(self, request: Request, feeds: list[tuple[Stream, bytes]], route: Route) -> None:
        for (stream, digest), array in zip(feeds, request.inputs, strict=True):
            header = PieceHeader(
                request.epoch, request.number, route, stream.id, digest, array.nbytes
            )
            self._endpoint.send(stream.target, encode_header(header), encode_array(array, "raw"))

    def _on_answer(self, source: str, header_bytes: bytes, payload: memoryview) -> None:
        now_s = time.monotonic()
        header = decode_header(source, header_bytes)
        epoch = self._epochs.get(header.epoch)
        if epoch is None:
            return  # a late frame of an epoch that is over
        epoch.gate.check(source, header, payload)
        index = header.stream - FIRST_ANSWER
        stream = epoch.answers[index]
        array: Array = decode_array(payload, stream.box.shape, stream.dtype, "raw").copy()
        with self._change:
            request = epoch.open.get(header.request)
            if request is None or header.epoch not in self._epochs:
                return
            request.outputs[index] = array
            if len(request.outputs) == len(epoch.answers):
                self._finish(request, epoch, now_s)

    def _finish(self, request: Request, epoch: _Epoch, now_s: float) -> None:
        del epoch.open[request.number]
        request.end_s = now_s
        epoch.admission.finish(request.number)
        self.answers += 1
        self.past.append(request)
        for switched_s in [time_s for time_s in self._awaited if time_s < now_s]:
            self._awaited.remove(switched_s)
            self._firsts[switched_s] = now_s
        answer = {stream.tensor: request.outputs[n] for n, stream in enumerate(epoch.answers)}
        future, request.future = request.future, None
        request.inputs, request.outputs = (), {}
        self._change.notify_all()
        if future is not None:
            future.plan_hash = epoch.plan_hash
            future.set_result(answer)
