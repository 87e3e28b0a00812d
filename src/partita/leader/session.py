"""A deployed plan: inputs in, outputs out, exactly one answer or one error each."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from partita.errors import InputError, PartitaError, RunError
from partita.execution import Admission, Report, Route
from partita.fabric import Failure, Piece, PieceGate, digest_stream, encode_piece
from partita.leader.blame import blame_failure, blame_lost, blame_slow
from partita.leader.crew import Crew
from partita.leader.deployment import Deployable, Deployment, DeployOptions
from partita.leader.measured import Marked, build_report
from partita.leader.requests import Array, Arrays, Asked, check_inputs
from partita.regions import decode_array, encode_array
from partita.worker.messages import FIRST_ANSWER, Info, answer_streams, feed_streams

#: A failure may be the echo of a lost device, of which the network tells a moment later.
_GRACE_S = 0.3
_WATCH_S = 0.1
#: A request may take so many times the deadline while others make progress.
_LONGEST = 20

Replan = Callable[[str], Deployable]


class Session:
    """A deployed plan; made by :func:`partita.leader.deploy`, ended by ``close`` or ``with``.

    Args:
        crew: The workers, all of them there.
        deployment: Prepared and active.
        infos: What each worker is.
        options: Patience.
        replan: Makes what runs without a lost device; None ends the run on a loss.
    """

    def __init__(
        self,
        crew: Crew,
        deployment: Deployment,
        infos: Mapping[str, Info],
        options: DeployOptions,
        replan: Replan | None = None,
    ) -> None:
        self._crew = crew
        self._infos = dict(infos)
        self._options = options
        self._replan = replan
        self._change = threading.Condition(threading.RLock())
        self._feeding = threading.Lock()
        self._error: PartitaError | None = None
        self._open: dict[int, Asked] = {}
        self._waiting: deque[Asked] = deque()
        self._count = 0
        self._past: list[Asked] = []
        self._first = 0
        self._troubles: deque[Callable[[], None]] = deque()
        self._closed = threading.Event()
        self._on_close: list[Callable[[], None]] = []
        self._marked: list[Marked] = []
        self._use(deployment)
        crew.endpoint.on_data(self._take_answer)
        crew.listener = self
        crew.expect_beats()
        self._watcher = threading.Thread(target=self._watch, name="leader/watch", daemon=True)
        self._watcher.start()

    @property
    def program(self) -> Any:
        """The program that runs now."""
        return self._deployment.program

    @property
    def deployment(self) -> Deployment:
        """The epoch that runs now."""
        return self._deployment

    @property
    def infos(self) -> Mapping[str, Info]:
        """What each worker is."""
        return dict(self._infos)

    def run(
        self, inputs: Sequence[Mapping[str, Any]], *, in_flight: int | None = None
    ) -> list[Arrays]:
        """Return the outputs of each of ``inputs``, in their order.

        Args:
            inputs: Per request, an array per model input, of its exact shape and type.
            in_flight: Most requests under way at the same time; the program's own number by
                default, which is also the most that is allowed. 1 feeds the next input after the
                last output.

        Raises:
            InputError: An input does not fit the model; nothing is fed then.
            RunError: A device was lost, a step failed, or an answer did not come in time.
        """
        for given in inputs:
            check_inputs(self.program.inputs, given)
        return list(self.iterate(inputs, in_flight=in_flight))

    def iterate(
        self, inputs: Iterable[Mapping[str, Any]], *, in_flight: int | None = None
    ) -> Iterator[Arrays]:
        """Yield the outputs of each of ``inputs``, in their order, as they come; see :meth:`run`.

        Inputs are drawn from the iterable only when they can be fed.
        """
        limit = self._check_in_flight(in_flight)
        self._first = self._count
        under_way: deque[Future[Arrays]] = deque()
        for given in inputs:
            while sum(not future.done() for future in under_way) >= limit:
                self._wait_for_change(under_way)
            under_way.append(self.submit(given))
            while under_way and under_way[0].done():
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    def submit(self, inputs: Mapping[str, Any]) -> Future[Arrays]:
        """Feed one request and return its future; blocks while the program's limit is reached.

        Args:
            inputs: An array per model input; they must not change before the answer is there.

        Raises:
            InputError: They do not fit the model.
            RunError: The session has failed or is closed.
        """
        arrays = check_inputs(self.program.inputs, inputs)
        with self._change:
            self._check_open()
            asked = Asked(self._count, arrays, Future())
            self._count += 1
            self._waiting.append(asked)
        while True:
            self._feed()
            with self._change:
                if asked.number >= 0 or asked.future.done():
                    return asked.future
                if not self._admission.has_room:
                    self._change.wait(1.0)

    def report(self) -> Report:
        """Return what happened since the last ``run`` or ``iterate`` began, as measured.

        Raises:
            RunError: Nothing was answered yet.
        """
        with self._change:
            asked = [a for a in self._past if a.index >= self._first]
        if not asked:
            raise RunError("There is nothing to report: no request was answered yet.")
        marked = [*self._marked, Marked.fetch(self._crew, self._deployment, self._options.trace)]
        return build_report(marked, asked, (self._options.planner, self._options.seed))

    def close(self) -> None:
        """Take the plan down; requests without an answer end with an error. May be repeated."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._fail(RunError("The session was closed before the answer came."))
        if threading.current_thread() is not self._watcher:
            self._watcher.join(5.0)
        self._crew.listener = None
        self._deployment.retire()
        for action in self._on_close:
            action()

    def at_close(self, action: Callable[[], None]) -> None:
        """Have ``action`` done at the end of :meth:`close`."""
        self._on_close.append(action)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _use(self, deployment: Deployment) -> None:
        program, leader = deployment.program, self._crew.endpoint.name
        self._deployment = deployment
        self._admission = Admission(program.routes, program.in_flight)
        self._feeds = [(s, digest_stream(s)) for s in feed_streams(program, leader)]
        self._answers = answer_streams(program, leader)
        self._gate = PieceGate(deployment.epoch, leader, self._answers)
        self._open.clear()

    def _check_in_flight(self, in_flight: int | None) -> int:
        most = int(self.program.in_flight)
        if in_flight is not None and not 1 <= in_flight <= most:
            raise InputError(
                f"in_flight is {in_flight}: the plan was compiled for 1 to {most}. "
                "Make the plan with a larger --in-flight.",
                subject="in_flight",
            )
        return in_flight or most

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise RunError("The session is closed; deploy the plan again.")
        if self._error is not None:
            raise self._error

    def _wait_for_change(self, futures: Iterable[Future[Arrays]]) -> None:
        with self._change:
            if not any(future.done() for future in futures):
                self._change.wait(1.0)

    def _feed(self) -> None:
        """Admit waiting requests while there is room, in order."""
        while True:
            with self._feeding:
                with self._change:
                    if not self._waiting or not self._admission.has_room or self._error:
                        return
                    asked = self._waiting.popleft()
                    asked.number, route = self._admission.admit()
                    asked.epoch = self._deployment.epoch
                    asked.start_s = asked.start_s or time.monotonic()
                    asked.times_fed += 1
                    self._open[asked.number] = asked
                    epoch, feeds = self._deployment.epoch, self._feeds
                    self._change.notify_all()
                try:
                    self._send(asked, epoch, feeds, route)
                except RunError as error:
                    self.on_fault(error)

    def _send(
        self, asked: Asked, epoch: int, feeds: Sequence[tuple[Any, bytes]], route: Route
    ) -> None:
        for (stream, digest), array in zip(feeds, asked.inputs, strict=True):
            piece = Piece(epoch, asked.number, route, stream.id, digest, array.nbytes)
            self._crew.endpoint.send(stream.target, encode_piece(piece), encode_array(array, "raw"))

    def _take_answer(self, source: str, header: bytes, payload: memoryview) -> None:
        now_s = time.monotonic()
        try:
            piece = self._gate.check(source, header, payload)
        except RunError:
            # A late frame of an epoch that is over; a damaged one ends in the deadline.
            return
        stream = self._answers[piece.stream - FIRST_ANSWER]
        array: Array = decode_array(payload, stream.box.shape, stream.dtype, "raw").copy()
        with self._change:
            asked = self._open.get(piece.request)
            if asked is None or piece.epoch != self._deployment.epoch:
                return
            asked.outputs[piece.stream - FIRST_ANSWER] = array
            if len(asked.outputs) < len(self._answers):
                return
            del self._open[piece.request]
            asked.end_s = now_s
            self._admission.finish(piece.request)
            self._past.append(asked)
            names = [stream.tensor for stream in self._answers]
            answer = {name: asked.outputs[index] for index, name in enumerate(names)}
            asked.inputs, asked.outputs = (), {}
            asked.future.set_result(answer)
            self._change.notify_all()

    def on_lost(self, device: str, why: str) -> None:
        """Take note that a device is gone."""
        self._troubles.append(lambda: self._lose(device, why))

    def on_failure(self, failure: Failure) -> None:
        """Take note that a step failed on a worker."""
        if failure.epoch == self._deployment.epoch:
            at_s = time.monotonic() + _GRACE_S
            self._troubles.append(lambda: self._judge(failure, at_s))

    def on_fault(self, error: RunError) -> None:
        """Take note of a fault of the leader's own network."""
        failure = Failure(self._deployment.epoch, error.device, "network", -1, error.message)
        self.on_failure(failure)

    def _watch(self) -> None:
        """Look after the workers until the session ends."""
        last_s = time.monotonic()
        while not self._closed.wait(_WATCH_S):
            now_s = time.monotonic()
            if now_s - last_s > 1.0:
                # The leader itself was stopped for a while: the workers' silence proves nothing.
                self._crew.expect_beats()
            last_s = now_s
            try:
                self._look(now_s)
            except Exception as error:  # without this thread a run could hang
                self._fail(RunError(f"The leader failed: {type(error).__name__}: {error}"))

    def _look(self, now_s: float) -> None:
        for _ in range(len(self._troubles)):
            self._troubles.popleft()()
        for device, age_s in self._crew.silent(self._options.silence_s).items():
            self._lose(device, f"it was silent for {age_s:.1f} s")
        with self._change:
            oldest = self._oldest()
        if oldest is None:
            return
        patience_s = self._options.deadline_s
        since_s = now_s - max(oldest.start_s, self._crew.progress_s)
        if since_s > patience_s or now_s - oldest.start_s > _LONGEST * patience_s:
            self._fail(blame_slow(self._crew, self._deployment, oldest, since_s))

    def _judge(self, failure: Failure, at_s: float) -> None:
        """End the run for a failed step, unless a device turns out to be lost meanwhile."""
        if failure.epoch != self._deployment.epoch or self._error is not None:
            return
        if time.monotonic() < at_s:
            self._troubles.append(lambda: self._judge(failure, at_s))
            return
        with self._change:
            asked = self._open.get(failure.request) or self._oldest()
        self._fail(blame_failure(failure, asked))

    def _oldest(self) -> Asked | None:
        return min(self._open.values(), key=lambda a: a.index, default=None)

    def _lose(self, device: str, why: str) -> None:
        if device not in self._crew.names or self._error is not None:
            return
        with self._change:
            asked = self._oldest()
        self._crew.drop(device)
        error = blame_lost(self._crew, self._deployment, asked, (device, why))
        if self._replan is None or device == self.program.requester:
            self._fail(error)
            return
        try:
            self._recover(device, self._replan)
        except PartitaError as fault:
            self._fail(
                RunError(
                    f"{error.message} The rest could not take over: {fault.message}",
                    device=device,
                    step=error.step,
                    request=error.request,
                )
            )

    def _recover(self, device: str, replan: Replan) -> None:
        """Go on with the devices that are left; unanswered requests are fed again."""
        with self._feeding, self._change:
            left = sorted(self._open.values(), key=lambda a: a.index)
            for asked in left:
                asked.number, asked.outputs = -1, {}
            self._waiting.extendleft(reversed(left))
            self._open.clear()
            self._admission = Admission((), 0)
            self._marked.append(Marked.fetch(self._crew, self._deployment, self._options.trace))
        self._deployment.retire()
        deployment = Deployment(replan(device), self._crew, self._options)
        deployment.prepare(self._infos)
        with self._feeding, self._change:
            self._use(deployment)
        self._crew.expect_beats()
        self._feed()

    def _fail(self, error: PartitaError) -> None:
        """End all requests with ``error``; the first error counts."""
        with self._change:
            self._error = self._error or error
            unanswered = [*self._open.values(), *self._waiting]
            self._open.clear()
            self._waiting.clear()
            for asked in unanswered:
                asked.future.set_exception(self._error)
            self._change.notify_all()
