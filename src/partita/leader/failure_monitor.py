"""Looks after a session: notices losses, failures and silence, and ends the run or moves it on."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from partita.errors import PartitaError, RunError
from partita.fabric import Failure
from partita.leader.deployment import Deployable, Deployment, DeployOptions
from partita.leader.explain import explain_failure, explain_lost, explain_slow
from partita.leader.measured import Marked
from partita.leader.request_tracker import RequestTracker
from partita.leader.requests import Asked
from partita.leader.worker_group import WorkerGroup
from partita.worker.messages import Info

#: Makes what the rest can run, from the name of the lost device.
Replan = Callable[[str], Deployable]

#: A failure may be the echo of a lost device, of which the network tells a moment later.
_GRACE_S = 0.3
_WATCH_S = 0.1
_DRAIN_POLL_S = 0.005
#: A request may take so many times the deadline while others make progress.
_LONGEST = 20
#: After a pause of its own this long, the leader does not hold silence against the workers.
_OWN_PAUSE_S = 0.5


class FailureMonitor:
    """One thread that decides about trouble, so that nothing is decided twice.

    Args:
        crew: The workers.
        deployment: Active.
        infos: What each worker is.
        options: Patience.
        replan: None ends the run on a loss.

    Attributes:
        deployment: The epoch that requests are admitted under.
        retiring: Epochs that only finish what they have.
        marked: What workers wrote down in epochs that are over.
    """

    def __init__(
        self,
        crew: WorkerGroup,
        deployment: Deployment,
        infos: Mapping[str, Info],
        options: DeployOptions,
        replan: Replan | None,
    ) -> None:
        self.deployment = deployment
        self.infos = dict(infos)
        self.retiring: list[Deployment] = []
        self.marked: list[Marked] = []
        self.flight = RequestTracker(crew.endpoint, deployment, self.on_fault)
        self._crew = crew
        self._options = options
        self._replan = replan
        self._troubles: deque[Callable[[], None]] = deque()
        self._ended = threading.Event()
        self._moving = threading.RLock()
        crew.listener = self
        crew.expect_beats(crew.names)
        self._thread = threading.Thread(target=self._watch, name="leader/guard", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking, and end the epoch."""
        self._ended.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(5.0)
        self._crew.listener = None
        for deployment in (*self.retiring, self.deployment):
            deployment.retire()

    def switch(self, old: Deployment, new: Deployment) -> bool:
        """Admit under ``new`` from now on; ``old`` is taken down after its last answer.

        Args:
            old: What the caller takes for the running epoch.
            new: Prepared and active on its workers.

        Returns:
            Whether it was done; not when another epoch runs meanwhile or the run has ended.
        """
        with self._moving:
            is_over = self._ended.is_set() or self.flight.error is not None
            is_there = set(new.devices) <= set(self._crew.names)
            if old is not self.deployment or is_over or not is_there:
                return False
            self._crew.expect_beats(new.devices)
            if not self._is_retired(old):
                self.retiring.append(old)
            self.deployment = new
            self.flight.resume(new)
            return True

    def drain(self, old: Deployment, timeout_s: float) -> bool:
        """Feed nothing more, and take ``old`` down after its last answer; then nothing runs.

        Returns:
            Whether it was done in time; if not, the epoch runs on.
        """
        self.flight.hold()
        deadline_s = time.monotonic() + timeout_s
        while not self.flight.is_drained(old.epoch):
            if self._ended.is_set() or time.monotonic() > deadline_s:
                break
            time.sleep(_DRAIN_POLL_S)
        with self._moving:
            if old is not self.deployment:
                return False
            if not self.flight.is_drained(old.epoch):
                self.flight.resume(old)
                return False
            self._take_down(old)
            return True

    def fetch_marks(self) -> list[Marked]:
        """Return what workers wrote down so far, in all epochs."""
        with self._moving:
            running = [*self.retiring]
            if not self._is_retired(self.deployment):
                running.append(self.deployment)
            trace = self._options.trace
            return [*self.marked, *(Marked.fetch(self._crew, one, trace) for one in running)]

    def _is_retired(self, deployment: Deployment) -> bool:
        return any(marked.epoch == deployment.epoch for marked in self.marked)

    def _take_down(self, deployment: Deployment) -> None:
        """Keep what the workers wrote down, end the epoch, and expect no more of who is idle."""
        if self._is_retired(deployment):
            return
        self.marked.append(Marked.fetch(self._crew, deployment, self._options.trace))
        self._crew.excuse(set(deployment.devices) - self._busy_devices())
        deployment.retire()

    def _busy_devices(self) -> set[str]:
        """The devices of epochs that are not taken down."""
        running = [d for d in (*self.retiring, self.deployment) if not self._is_retired(d)]
        return {name for one in running for name in one.devices}

    def on_lost(self, device: str, why: str) -> None:
        """Take note that a device is gone."""
        self._troubles.append(lambda: self._lose(device, why))

    def on_failure(self, failure: Failure) -> None:
        """Take note that a step failed on a worker."""
        at_s = time.monotonic() + _GRACE_S
        self._troubles.append(lambda: self._judge(failure, at_s))

    def on_fault(self, error: RunError) -> None:
        """Take note of a fault of the leader's own network."""
        self.on_failure(Failure(self.deployment.epoch, error.device, "network", -1, error.message))

    def _watch(self) -> None:
        last_s = time.monotonic()
        while not self._ended.wait(_WATCH_S):
            now_s = time.monotonic()
            if now_s - last_s > _OWN_PAUSE_S:
                self._crew.expect_beats()
            try:
                with self._moving:
                    self._look(now_s)
            except Exception as error:  # without this thread a run could hang
                self.flight.fail(RunError(f"The leader failed: {type(error).__name__}: {error}."))
            last_s = time.monotonic()

    def _look(self, now_s: float) -> None:
        for _ in range(len(self._troubles)):
            self._troubles.popleft()()
        for device, age_s in self._crew.silent(self._options.silence_s).items():
            self._lose(device, f"it was silent for {age_s:.1f} s")
        for deployment in [d for d in self.retiring if self.flight.is_drained(d.epoch)]:
            self.retiring.remove(deployment)
            self._take_down(deployment)
        oldest = self.flight.oldest()
        if oldest is None:
            return
        patience_s = self._options.deadline_s
        since_s = now_s - max(oldest.start_s, self._crew.progress_s)
        if since_s > patience_s or now_s - oldest.start_s > _LONGEST * patience_s:
            self.flight.fail(explain_slow(self._crew, self._epoch_of(oldest), oldest, since_s))

    def _epoch_of(self, asked: Asked) -> Deployment:
        """Return what a request runs under."""
        running = (*self.retiring, self.deployment)
        return next((one for one in running if one.epoch == asked.epoch), self.deployment)

    def _judge(self, failure: Failure, at_s: float) -> None:
        """End the run for a failed step, unless a device turns out to be lost meanwhile."""
        epochs = {one.epoch for one in (*self.retiring, self.deployment)}
        if failure.epoch not in epochs or self.flight.error is not None:
            return
        if time.monotonic() < at_s:
            self._troubles.append(lambda: self._judge(failure, at_s))
            return
        asked = self.flight.find(failure.epoch, failure.request) or self.flight.oldest()
        self.flight.fail(explain_failure(failure, asked))

    def _lose(self, device: str, why: str) -> None:
        if device not in self._crew.names or self.flight.error is not None:
            return
        asked = self.flight.oldest()
        self._crew.drop(device)
        if device not in self._busy_devices():
            return
        deployment = self.deployment if asked is None else self._epoch_of(asked)
        error = explain_lost(self._crew, deployment, asked, (device, why))
        if self._replan is None or device == self.deployment.program.requester:
            self.flight.fail(error)
            return
        try:
            self._move(self._replan, device)
        except PartitaError as fault:
            message = f"{error.message} The rest could not take over: {fault.message}"
            self.flight.fail(
                RunError(message, device=device, step=error.step, request=error.request)
            )

    def _move(self, replan: Replan, lost: str) -> None:
        """Go on with the devices that are left; unanswered requests are fed again."""
        self.flight.suspend()
        for deployment in (*self.retiring, self.deployment):
            self._take_down(deployment)
        self.retiring.clear()
        compiled = replan(lost)
        self._crew.hire(part.device for part in compiled.program.devices)
        self._crew.wait(self._options.wait_s)
        self.infos = self._crew.greet()
        self.deployment = Deployment(compiled, self._crew, self._options)
        self.deployment.prepare(self.infos)
        self._crew.expect_beats(self.deployment.devices)
        self.flight.resume(self.deployment)
