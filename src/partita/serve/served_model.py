"""One version of a model: a session behind a bounded queue, one answer or one error each."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from partita.errors import BusyError, PartitaError, RunError, first_line
from partita.leader import Session
from partita.leader.requests import AnswerFuture, Arrays
from partita.program import TensorSpec
from partita.regions import Array
from partita.serve.tensors import describe_tensors

_LOG = logging.getLogger(__name__)


class ServedModel:
    """A model that answers requests in the order in which it took them.

    A thread feeds the session, which blocks while as many requests are under way as it allows; so
    nobody else waits for a link.

    Args:
        name: What clients call it.
        version: Counted from 1 under that name.
        opened: Deploys it when entered; left when this is closed.
        queue: Most requests that wait beside those under way.

    Attributes:
        hindrance: Why it could not be deployed anew, after its session had ended.

    Raises:
        PartitaError: It cannot be deployed.
    """

    def __init__(
        self, name: str, version: str, opened: AbstractContextManager[Session], queue: int
    ) -> None:
        self.name, self.version = name, version
        self._opened, self._queue = opened, queue
        self.session = opened.__enter__()
        self.hindrance = ""
        self._waiting: deque[tuple[Mapping[str, Array], AnswerFuture]] = deque()
        self._unanswered = 0
        self._error: PartitaError | None = None
        self._is_ending = False
        self._is_closed = False
        self._change = threading.Condition()
        self._feeder = threading.Thread(target=self._feed, name=f"serve/{name}", daemon=True)
        self._feeder.start()

    @property
    def error(self) -> PartitaError | None:
        """Why its session has ended, also before a request has found out; None while it goes on."""
        return self._error or self.session.error

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What it takes."""
        return self.session.program.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What it gives."""
        return self.session.program.outputs

    def describe(self) -> dict[str, Any]:
        """Its metadata."""
        return {
            "name": self.name,
            "versions": [self.version],
            "platform": "partita_onnx",
            "inputs": describe_tensors(self.inputs),
            "outputs": describe_tensors(self.outputs),
        }

    @property
    def limit(self) -> int:
        """Most requests that are taken and not answered yet."""
        return self._queue + self.session.program.in_flight

    @property
    def unanswered(self) -> int:
        """Requests that were taken and not answered yet."""
        return self._unanswered

    def check_room(self) -> None:
        """Raise unless one more request is taken now.

        Raises:
            BusyError: As many wait as may, the model takes no more, or its session has ended.
        """
        if self.error is not None:
            raise self._is_down(self.error)
        if self._is_ending:
            raise BusyError(f"Model '{self.name}' takes no more requests: it is being taken down.")
        if self._unanswered >= self.limit:
            raise BusyError(
                f"Model '{self.name}' is busy: {self._unanswered} requests have no answer yet,"
                f" allowed: {self.limit}. Ask again later."
            )

    def _is_down(self, why: PartitaError) -> BusyError:
        """For requests that never ran: another version may answer them."""
        since = f" It is not back: {self.hindrance}." if self.hindrance else " Ask again later."
        return BusyError(f"Model '{self.name}' is down: {first_line(why)}.{since}")

    def describe_answer(self, answer: AnswerFuture) -> dict[str, Any]:
        """Which model gave an answer that is there; marked, where its fallback did."""
        named: dict[str, Any] = {"model_name": self.name, "model_version": self.version}
        is_fallback = answer.plan_hash == self.session.fallback
        return named | ({"parameters": {"fallback": True}} if is_fallback else {})

    def ask(self, feeds: Mapping[str, Array]) -> AnswerFuture:
        """Take a request and return its future, at once.

        Args:
            feeds: An array per model input; they must not change before the answer is there.

        Raises:
            BusyError: As :meth:`check_room`.
        """
        future = AnswerFuture()
        future.set_running_or_notify_cancel()  # what was taken is not called back
        with self._change:
            self.check_room()
            self._unanswered += 1
            self._waiting.append((feeds, future))
            self._change.notify_all()
        return future

    def drain(self, timeout_s: float) -> bool:
        """Take no more requests; return whether all that were taken are answered in time."""
        deadline_s = time.monotonic() + timeout_s
        with self._change:
            self._is_ending = True
            self._change.notify_all()
            while self._unanswered and (left_s := deadline_s - time.monotonic()) > 0:
                self._change.wait(left_s)
            return not self._unanswered

    def close(self) -> None:
        """Take the model down; requests without an answer end with an error. May be repeated."""
        with self._change:
            is_first, self._is_closed = not self._is_closed, True
            self._is_ending = True
            self._change.notify_all()
        if is_first:
            self._opened.__exit__(None, None, None)  # ends what the feeder waits for, too
        self._feeder.join()

    def _feed(self) -> None:
        while (taken := self._next()) is not None:
            feeds, future = taken
            try:
                answer = self.session.submit(feeds)
            except Exception as error:  # one that is lost here would never be answered
                answer = AnswerFuture()
                answer.set_exception(self._is_down(self.error) if self.error else error)
            answer.add_done_callback(partial(self._finish, future))

    def _next(self) -> tuple[Mapping[str, Array], AnswerFuture] | None:
        """The oldest request that waits; None once there will be none."""
        with self._change:
            while not self._waiting and not (self._is_ending and not self._unanswered):
                self._change.wait()
            return self._waiting.popleft() if self._waiting else None

    def _finish(self, future: AnswerFuture, answer: Future[Arrays]) -> None:
        error = answer.exception()
        if error is not None and not isinstance(error, PartitaError):
            _LOG.debug("A request failed.", exc_info=error)
            error = RunError(f"The request failed: {first_line(error)}.")
        if isinstance(error, RunError):  # of the whole session: it answers nothing any more
            self._error = error
        with self._change:  # first: who has its answer finds room for the next request
            self._unanswered -= 1
            if self._is_ending:  # nobody else waits for it; waking the feeder holds up the answer
                self._change.notify_all()
        if error is not None:
            future.set_exception(error)
        else:
            if isinstance(answer, AnswerFuture):
                future.plan_hash = answer.plan_hash
            future.set_result(answer.result())
