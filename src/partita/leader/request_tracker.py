"""Requests from admission to answer: fed in order, answered once, moved to another epoch."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from partita.errors import PartitaError, RunError
from partita.execution import Admission, Route
from partita.fabric import Endpoint, PieceGate, PieceHeader, digest_stream, encode_header
from partita.fabric.frames import decode_header
from partita.leader.deployment import Deployment
from partita.leader.requests import Array, Arrays, Asked
from partita.program import Stream
from partita.regions import decode_array, encode_array
from partita.worker.messages import FIRST_ANSWER, answer_streams, feed_streams

#: Answered requests of which the latency is remembered.
_REMEMBERED = 100_000


class _Epoch:
    """Numbers, streams and open requests of one deployment."""

    def __init__(self, deployment: Deployment, leader: str) -> None:
        program = deployment.program
        self.number = deployment.epoch
        self.feeds = [(s, digest_stream(s)) for s in feed_streams(program, leader)]
        self.answers = answer_streams(program, leader)
        self.gate = PieceGate(deployment.epoch, leader, self.answers)
        self.admission = Admission(program.routes, program.in_flight)
        self.in_flight = program.in_flight
        self.open: dict[int, Asked] = {}


class RequestTracker:
    """All requests of a session.

    Args:
        endpoint: The leader's endpoint; its data callback is taken over.
        deployment: Active.
        on_fault: Told when a request cannot be fed.

    Attributes:
        count: Requests asked so far.
        answers: Requests answered so far.
        past: Answered requests, in the order of their answers; the last ones only.
    """

    def __init__(
        self, endpoint: Endpoint, deployment: Deployment, on_fault: Callable[[RunError], None]
    ) -> None:
        self.count = 0
        self.answers = 0
        self.past: deque[Asked] = deque(maxlen=_REMEMBERED)
        self.error: PartitaError | None = None
        self._endpoint = endpoint
        self._on_fault = on_fault
        self._change = threading.Condition(threading.RLock())
        self._feeding = threading.Lock()
        self._waiting: deque[Asked] = deque()
        self._is_held = False
        self._epoch = _Epoch(deployment, endpoint.name)
        self._epochs = {deployment.epoch: self._epoch}
        endpoint.on_data(self._take_answer)

    def ask(self, arrays: tuple[Array, ...]) -> Future[Arrays]:
        """Feed one request and return its future; blocks while there is no room.

        Raises:
            PartitaError: The session has failed or is closed.
        """
        with self._change:
            if self.error is not None:
                raise self.error
            asked = Asked(self.count, arrays, Future())
            # What is fed cannot be called back: a cancelled future would take no result.
            asked.future.set_running_or_notify_cancel()
            self.count += 1
            self._waiting.append(asked)
        while True:
            self._feed()
            with self._change:
                if asked.number >= 0 or asked.future.done():
                    return asked.future
                if not self._has_room:
                    self._change.wait(1.0)

    def wait_below(self, limit: int, futures: Iterable[Future[Arrays]]) -> None:
        """Wait until fewer than ``limit`` of ``futures`` are without a result."""
        with self._change:
            while sum(not future.done() for future in futures) >= limit:
                self._change.wait(1.0)

    def oldest(self) -> Asked | None:
        """The oldest request without an answer that was fed."""
        with self._change:
            return min(self._all_open(), key=lambda asked: asked.index, default=None)

    def find(self, epoch: int, number: int) -> Asked | None:
        """The request that has ``number`` under ``epoch`` and no answer yet."""
        with self._change:
            found = self._epochs.get(epoch)
            return found.open.get(number) if found is not None else None

    def is_drained(self, epoch: int) -> bool:
        """Whether no request of ``epoch`` is without its answer."""
        with self._change:
            found = self._epochs.get(epoch)
            return found is None or not found.open

    def latest(self, since: int) -> list[Asked]:
        """The answered requests from the answer numbered ``since`` on, as far as known."""
        with self._change:
            count = min(self.answers - since, len(self.past))
            return [self.past[k] for k in range(len(self.past) - count, len(self.past))]

    def answered(self, first: int) -> list[Asked]:
        """The answered requests from index ``first`` on."""
        with self._change:
            return [asked for asked in self.past if asked.index >= first]

    def suspend(self) -> None:
        """Take back what has no answer and feed nothing until :meth:`resume`."""
        with self._feeding, self._change:
            left = sorted(self._all_open(), key=lambda asked: asked.index)
            for asked in left:
                asked.number, asked.outputs = -1, {}
            self._waiting.extendleft(reversed(left))
            self._epochs.clear()
            self._is_held = True

    def hold(self) -> None:
        """Feed nothing until :meth:`resume`; what was fed goes on to its answer."""
        with self._feeding, self._change:
            self._is_held = True

    def resume(self, deployment: Deployment) -> None:
        """Feed under the epoch of ``deployment``; what was fed under another one stays there."""
        with self._feeding, self._change:
            self._epochs = {n: epoch for n, epoch in self._epochs.items() if epoch.open}
            if deployment.epoch != self._epoch.number:
                self._epoch = _Epoch(deployment, self._endpoint.name)
            self._epochs[deployment.epoch] = self._epoch
            self._is_held = False
            self._change.notify_all()
        self._feed()

    def fail(self, error: PartitaError) -> None:
        """End all requests, also later ones, with ``error``; the first error counts."""
        with self._change:
            self.error = self.error or error
            unanswered = [*self._all_open(), *self._waiting]
            for epoch in self._epochs.values():
                epoch.open.clear()
            self._waiting.clear()
            for asked in unanswered:
                asked.future.set_exception(self.error)
            self._change.notify_all()

    def _all_open(self) -> list[Asked]:
        return [asked for epoch in self._epochs.values() for asked in epoch.open.values()]

    @property
    def _has_room(self) -> bool:
        """Whether one more may be fed; what older epochs still have under way counts too."""
        epoch = self._epoch
        if self._is_held or not epoch.admission.has_room:
            return False
        return sum(len(one.open) for one in self._epochs.values()) < epoch.in_flight

    def _feed(self) -> None:
        """Admit waiting requests while there is room, in order."""
        while True:
            with self._feeding:
                with self._change:
                    if not self._waiting or not self._has_room:
                        return
                    asked, epoch = self._waiting.popleft(), self._epoch
                    asked.number, route = epoch.admission.admit()
                    asked.epoch = epoch.number
                    asked.start_s = asked.start_s or time.monotonic()
                    epoch.open[asked.number] = asked
                    self._change.notify_all()
                try:
                    self._send(asked, epoch.feeds, route)
                except RunError as error:
                    self._on_fault(error)

    def _send(self, asked: Asked, feeds: list[tuple[Stream, bytes]], route: Route) -> None:
        for (stream, digest), array in zip(feeds, asked.inputs, strict=True):
            piece = PieceHeader(asked.epoch, asked.number, route, stream.id, digest, array.nbytes)
            self._endpoint.send(stream.target, encode_header(piece), encode_array(array, "raw"))

    def _take_answer(self, source: str, header: bytes, payload: memoryview) -> None:
        now_s = time.monotonic()
        piece = decode_header(source, header)
        epoch = self._epochs.get(piece.epoch)
        if epoch is None:
            # A late frame of an epoch that is over.
            return
        epoch.gate.check_decoded(source, piece, payload)
        index = piece.stream - FIRST_ANSWER
        stream = epoch.answers[index]
        array: Array = decode_array(payload, stream.box.shape, stream.dtype, "raw").copy()
        with self._change:
            asked = epoch.open.get(piece.request)
            if asked is None or piece.epoch not in self._epochs:
                return
            asked.outputs[index] = array
            if len(asked.outputs) == len(epoch.answers):
                self._finish(asked, epoch, now_s)

    def _finish(self, asked: Asked, epoch: _Epoch, now_s: float) -> None:
        del epoch.open[asked.number]
        asked.end_s = now_s
        epoch.admission.finish(asked.number)
        self.answers += 1
        self.past.append(asked)
        answer = {stream.tensor: asked.outputs[n] for n, stream in enumerate(epoch.answers)}
        asked.inputs, asked.outputs = (), {}
        self._change.notify_all()
        asked.future.set_result(answer)
