"""Requests from admission to answer: fed in order, answered once, moved to another epoch."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from partita.errors import PartitaError, RunError
from partita.execution import Admission, Route
from partita.fabric import Endpoint, Piece, PieceGate, digest_stream, encode_piece
from partita.fabric.frames import decode_piece
from partita.leader.deployment import Deployment
from partita.leader.requests import Array, Arrays, Asked
from partita.program import Stream
from partita.regions import decode_array, encode_array
from partita.worker.messages import FIRST_ANSWER, answer_streams, feed_streams

#: Answered requests of which the latency is remembered.
_REMEMBERED = 100_000
_NO_ROOM = Admission((), 0)


class Flight:
    """All requests of a session.

    Args:
        endpoint: The leader's endpoint; its data callback is taken over.
        deployment: Active.
        on_fault: Told when a request cannot be fed.

    Attributes:
        count: Requests asked so far.
        past: Answered requests, in the order of their answers.
    """

    def __init__(
        self, endpoint: Endpoint, deployment: Deployment, on_fault: Callable[[RunError], None]
    ) -> None:
        self.count = 0
        self.past: deque[Asked] = deque(maxlen=_REMEMBERED)
        self.error: PartitaError | None = None
        self._endpoint = endpoint
        self._on_fault = on_fault
        self._change = threading.Condition(threading.RLock())
        self._feeding = threading.Lock()
        self._open: dict[int, Asked] = {}
        self._waiting: deque[Asked] = deque()
        self.resume(deployment)
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
                if not self._admission.has_room:
                    self._change.wait(1.0)

    def wait_below(self, limit: int, futures: Iterable[Future[Arrays]]) -> None:
        """Return when fewer than ``limit`` of ``futures`` are without a result."""
        with self._change:
            while sum(not future.done() for future in futures) >= limit:
                self._change.wait(1.0)

    def oldest(self) -> Asked | None:
        """Return the oldest request without an answer that was fed."""
        with self._change:
            return min(self._open.values(), key=lambda asked: asked.index, default=None)

    def find(self, number: int) -> Asked | None:
        """Return the request that has ``number`` under the present epoch and no answer yet."""
        with self._change:
            return self._open.get(number)

    def answered(self, first: int) -> list[Asked]:
        """Return the answered requests from index ``first`` on."""
        with self._change:
            return [asked for asked in self.past if asked.index >= first]

    def suspend(self) -> None:
        """Take back what has no answer and feed nothing until :meth:`resume`."""
        with self._feeding, self._change:
            left = sorted(self._open.values(), key=lambda asked: asked.index)
            for asked in left:
                asked.number, asked.outputs = -1, {}
            self._waiting.extendleft(reversed(left))
            self._open.clear()
            self._admission = _NO_ROOM

    def resume(self, deployment: Deployment) -> None:
        """Go on under the epoch of ``deployment``."""
        program, leader = deployment.program, self._endpoint.name
        with self._feeding, self._change:
            self._epoch = deployment.epoch
            self._feeds = [(s, digest_stream(s)) for s in feed_streams(program, leader)]
            self._answers = answer_streams(program, leader)
            self._gate = PieceGate(deployment.epoch, leader, self._answers)
            self._admission = Admission(program.routes, program.in_flight)
        self._feed()

    def fail(self, error: PartitaError) -> None:
        """End all requests, also later ones, with ``error``; the first error counts."""
        with self._change:
            self.error = self.error or error
            unanswered = [*self._open.values(), *self._waiting]
            self._open.clear()
            self._waiting.clear()
            for asked in unanswered:
                asked.future.set_exception(self.error)
            self._change.notify_all()

    def _feed(self) -> None:
        """Admit waiting requests while there is room, in order."""
        while True:
            with self._feeding:
                with self._change:
                    if not self._waiting or not self._admission.has_room:
                        return
                    asked = self._waiting.popleft()
                    asked.number, route = self._admission.admit()
                    asked.epoch = self._epoch
                    asked.start_s = asked.start_s or time.monotonic()
                    self._open[asked.number] = asked
                    self._change.notify_all()
                try:
                    self._send(asked, self._feeds, route)
                except RunError as error:
                    self._on_fault(error)

    def _send(self, asked: Asked, feeds: list[tuple[Stream, bytes]], route: Route) -> None:
        for (stream, digest), array in zip(feeds, asked.inputs, strict=True):
            piece = Piece(asked.epoch, asked.number, route, stream.id, digest, array.nbytes)
            self._endpoint.send(stream.target, encode_piece(piece), encode_array(array, "raw"))

    def _take_answer(self, source: str, header: bytes, payload: memoryview) -> None:
        now_s = time.monotonic()
        piece = decode_piece(source, header)
        if piece.epoch != self._epoch:
            # A late frame of an epoch that is over.
            return
        self._gate.check_piece(source, piece, payload)
        index = piece.stream - FIRST_ANSWER
        stream = self._answers[index]
        array: Array = decode_array(payload, stream.box.shape, stream.dtype, "raw").copy()
        with self._change:
            asked = self._open.get(piece.request)
            if asked is None or piece.epoch != self._epoch:
                return
            asked.outputs[index] = array
            if len(asked.outputs) == len(self._answers):
                self._finish(asked, now_s)

    def _finish(self, asked: Asked, now_s: float) -> None:
        del self._open[asked.number]
        asked.end_s = now_s
        self._admission.finish(asked.number)
        self.past.append(asked)
        answer = {stream.tensor: asked.outputs[n] for n, stream in enumerate(self._answers)}
        asked.inputs, asked.outputs = (), {}
        self._change.notify_all()
        asked.future.set_result(answer)
