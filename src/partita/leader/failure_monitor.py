"""Losses, failures and silence of a session: they end the run, or move it to the other devices."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping

from partita.errors import LinkError, RunError, name_error
from partita.execution import Change
from partita.fabric import Failure
from partita.leader.deployment import Deployable, Deployment, DeployOptions, meet_workers
from partita.leader.explain import explain_failure, explain_lost, explain_slow, find_culprit
from partita.leader.failures import Failures
from partita.leader.link_monitor import LinkMonitor
from partita.leader.losses import Lost
from partita.leader.past_epochs import PastEpochs
from partita.leader.patience import Patience
from partita.leader.recovery import Halt, Recovery
from partita.leader.request_tracker import RequestTracker
from partita.leader.requests import Request
from partita.leader.run_report import EpochLog
from partita.leader.standbys import Standbys
from partita.leader.worker_group import WorkerGroup
from partita.naming import is_endpoint
from partita.program import Program
from partita.recent import Recent
from partita.worker.messages import Info

_LOG = logging.getLogger(__name__)

#: A thirtieth of the 3 s; a check costs microseconds.
_CHECK_S = 0.1
#: A fraction of a request, so that a switch waits for no more than the last answer.
_DRAIN_POLL_S = 0.005
#: A request may take so many times the deadline while others make progress; then it counts as lost.
_MAX_DEADLINES = 20
#: Names are kept only for who looks at them; so are the plans of epochs.
_MOST_ARRIVED, _MOST_PLANS = 256, 1024


class FailureMonitor:
    """One thread that handles all incidents, so that nothing is decided twice.

    Args:
        deployment: Active.
        recovery: Goes on without what is lost, or ends the run.
        standby: Prepared beside the first, for when the recovery gives its program.

    Attributes:
        deployment: The epoch that requests are admitted under.
        retiring: Epochs that only finish their open requests.
        standbys: What takes over when the recovery gives its program, prepared or about to be.
        soon: How what takes over is prepared.
        arrived: Who came, or came back, until somebody takes it from there.
        back_off: For how long those that come and go are left alone.
        plans: The hash of the plan that each epoch ran, of the last ones.
    """

    def __init__(
        self,
        group: WorkerGroup,
        deployment: Deployment,
        infos: Mapping[str, Info],
        options: DeployOptions,
        recovery: Recovery,
        *,
        standby: Deployment | None = None,
    ) -> None:
        self.deployment = deployment
        self.plans = Recent(_MOST_PLANS, {deployment.epoch: deployment.program.plan_hash})
        self.standbys = Standbys(standby)
        self.soon = options
        self.infos = dict(infos)
        self.retiring: list[Deployment] = []
        self.arrived: deque[str] = deque(maxlen=_MOST_ARRIVED)
        self._struck: list[Deployment] = []
        self._past = PastEpochs(group, options.trace)
        self.tracker = RequestTracker(
            group.endpoint, deployment, self.on_fault, remembered=options.remembered
        )
        self._group = group
        self._options = options
        self._recovery = recovery
        self._requester = deployment.program.requester
        self._halt: Halt | None = None
        self.tracker.await_answers(recovery.changes)
        self.back_off = recovery.back_off
        self._failures = Failures(group, options.silence_s)
        self._found: deque[str] = deque()
        self._links = LinkMonitor()
        self._ended = threading.Event()
        self._news = threading.Event()
        self._changing = threading.RLock()
        group.listener = self
        group.beats.expect(group.names)
        self._thread = threading.Thread(target=self._run, name="leader/monitor", daemon=True)
        self._thread.start()

    def close(self, patience: Patience) -> bool:
        """Retire all epochs; whether the threads have ended in time."""
        self._ended.set()
        self._news.set()
        is_over = patience.join(self._thread)
        self._group.listener = None
        is_over &= self._past.close(patience)
        for deployment in (*self.retiring, *self.standbys, self.deployment):
            deployment.retire()
        return is_over

    @property
    def lost(self) -> Lost:
        """Devices and links that the session goes on without."""
        return self._recovery.lost

    def switch(self, old: Deployment, new: Deployment) -> bool:
        """Admit under ``new`` from now on; ``old`` is retired after its last answer.

        Args:
            old: The running epoch, as far as the caller knows.
            new: Prepared and active on its workers.

        Returns whether it was done; not when another epoch runs by now or the run has ended.
        """
        with self._changing:
            is_over = self._ended.is_set() or self.tracker.error is not None
            is_there = set(new.devices) <= set(self._group.names)
            if old is not self.deployment or is_over or not is_there:
                return False
            if old not in self._past:
                self.retiring.append(old)
            self._enter(new)
            return True

    def hold(self, spare: Deployment, running: Deployment, stale: Deployment | None) -> bool:
        """Keep what takes over from ``running`` by, in the place of ``stale``.

        Returns whether it was done; not when another epoch runs by now.
        """
        with self._changing:
            if running is not self.deployment or self._ended.is_set():
                return False
            self.standbys.hold(spare, stale)
            return True

    def add_workers(self, program: Program, wait_s: float) -> None:
        """Take the workers of a program into the group, with their facts.

        Raises:
            LinkError: One is lost, or not there in time.
            RunError: One is of another version.
        """
        names = [part.device for part in program.devices]
        with self._changing:  # a recovery is not to wait for whom it does without
            self._recovery.add(names)
        self._group.wait(wait_s, names)
        if missing := [name for name in names if name not in self.infos]:
            self.infos.update(self._group.greet(missing))

    def take_back(self, device: str) -> None:
        """Take a device in that was lost, or was not there.

        Raises:
            RunError: It does not answer, or is of another version.
        """
        info = self._group.take_back(device)
        with self._changing:
            self.infos[device] = info
            self._recovery.count_lost(device, is_lost=False)
        self.back_off.use(device, time.monotonic())

    def count_lost(self, device: str, *, is_lost: bool) -> None:
        """Plan without a device that is still there, or with it again."""
        with self._changing:
            self._recovery.count_lost(device, is_lost=is_lost)

    def let_go(self, device: str, change: Change) -> None:
        """Forget a device that is counted as lost and that no epoch uses any more."""
        self.standbys.drop(device)
        with self._changing:
            self._recovery.do_without(Lost((device,)))
            self._recovery.log.add(change)
            self.tracker.await_answers([change])

    def await_end(self, old: Deployment, timeout_s: float) -> None:
        """Wait until an epoch that gave way to another has answered all, and is taken down."""
        end_s = time.monotonic() + timeout_s
        while old not in self._past and time.monotonic() < end_s and not self._ended.is_set():
            time.sleep(_DRAIN_POLL_S)
        self._past.wait()

    def drain(self, old: Deployment, timeout_s: float) -> bool:
        """Feed nothing more, and retire ``old`` after its last answer; then nothing runs.

        Returns:
            Whether it was done in time; if not, the epoch runs on.
        """
        self.tracker.pause()
        deadline_s = time.monotonic() + timeout_s
        while not self.tracker.is_drained(old.epoch):
            if self._ended.is_set() or time.monotonic() > deadline_s:
                break
            time.sleep(_DRAIN_POLL_S)
        with self._changing:
            if old is not self.deployment:
                self.tracker.resume(self.deployment)  # it took over before feeding was paused
                return False
            if not self.tracker.is_drained(old.epoch):
                self.tracker.resume(old)
                return False
            self._retire(old)
        self._past.wait()
        return True

    def fetch_logs(self) -> list[EpochLog]:
        """Spans and totals so far, of the last epochs."""
        with self._changing:
            return [*self._past.logs(), *map(self._past.fetch, self._running())]

    def _running(self) -> list[Deployment]:
        """The epochs that are not retired."""
        return [d for d in (*self.retiring, self.deployment) if d not in self._past]

    def _retire(self, deployment: Deployment) -> None:
        """Keep an epoch's log and end it; expect no heartbeats of devices that are idle then."""
        if deployment not in self._past:
            self._past.add(deployment)
            self._group.beats.excuse(set(deployment.devices) - self._busy_devices())

    def _retire_struck(self) -> None:
        """End the epochs that a loss has struck."""
        while self._struck:
            self._retire(self._struck.pop())

    def _busy_devices(self) -> set[str]:
        return {name for deployment in self._running() for name in deployment.devices}

    def on_lost(self, device: str, why: str) -> None:
        """Queue the loss of a device."""
        self._recovery.on_lost(device, why)
        self._news.set()

    def on_found(self, device: str) -> None:
        """Queue the coming of a device."""
        self._found.append(device)
        self._news.set()

    def on_failure(self, failure: Failure) -> None:
        """Queue the failure of a step on a worker."""
        self._failures.add(failure)

    def on_fault(self, error: RunError) -> None:
        """Queue a fault of the leader's own endpoint."""
        self.on_failure(Failure(self.deployment.epoch, error.device, "network", -1, error.message))

    def _run(self) -> None:
        while not self._ended.is_set():
            self._news.wait(_CHECK_S)
            self._news.clear()
            self._group.beat()
            try:
                with self._changing:
                    self._check(time.monotonic())
            except Exception as error:  # without this thread a run could hang
                _LOG.debug("The leader failed.", exc_info=True)
                self.tracker.fail(RunError(f"The leader failed: {name_error(error)}."))

    def _check(self, now_s: float) -> None:
        for device, age_s in self._group.beats.silent(self._options.silence_s).items():
            self.on_lost(device, f"it was silent for {age_s:.1f} s")
        self._handle_losses()
        while self._found:
            self.arrived.append(self._found.popleft())  # after its loss, if that was told first
        if self._halt is not None:
            self._go_on(self._halt)
            return
        for failure in self._failures.take():
            self._handle_failure(failure)
        for deployment in [d for d in self.retiring if self.tracker.is_drained(d.epoch)]:
            self.retiring.remove(deployment)
            self._retire(deployment)
        oldest = self.tracker.oldest()
        if oldest is None:
            return
        patience_s = self._options.deadline_s
        idle_s = self._group.beats.now_s - self._group.progress_s
        since_s = min(now_s - oldest.start_s, idle_s)
        epoch = self._epoch_of(oldest)
        if since_s > patience_s or now_s - oldest.start_s > _MAX_DEADLINES * patience_s:
            error = explain_slow(self._group, epoch, oldest, since_s)
            self._give_up(find_culprit(self._group, epoch, oldest), error)
        elif self._links.is_due(since_s, self.tracker.usual_s(epoch.epoch), now_s):
            culprit = find_culprit(self._group, epoch, oldest)
            if self._links.confirm(culprit, now_s) and self._recovery.is_wanted:
                self._give_up(culprit, explain_slow(self._group, epoch, oldest, since_s))

    def _epoch_of(self, request: Request) -> Deployment:
        """The epoch that a request runs under."""
        retiring = (old for old in self.retiring if old.epoch == request.epoch)
        return next(retiring, self.deployment)

    def _handle_failure(self, failure: Failure) -> None:
        """End the run for a failed step that follows from no loss.

        Where both ends of a broken link are there all the same, the link is what is lost.
        """
        epochs = {deployment.epoch for deployment in (*self.retiring, self.deployment)}
        if failure.epoch not in epochs or self.tracker.error is not None:
            return
        request = self.tracker.find(failure.epoch, failure.request) or self.tracker.oldest()
        is_link = {failure.device, failure.peer} <= {*self._group.names}
        lost = Lost.link(failure.device, failure.peer) if is_link else Lost()
        if is_endpoint(failure.peer):  # the device is there, but computes nothing
            lost = Lost((failure.device,))
        self._give_up(lost, explain_failure(failure, request))

    def _handle_losses(self) -> None:
        """End the run for devices that were lost under way, or go on without them."""
        request = self.tracker.oldest()
        busy = self._busy_devices()
        losses = [loss for loss in self._recovery.take_losses() if loss[0] in busy]
        if not losses or self._halt is not None or self.tracker.error is not None:
            return
        deployment = self.deployment if request is None else self._epoch_of(request)
        error = explain_lost(self._group, deployment, request, losses[0])
        self._give_up(Lost(tuple(device for device, _ in losses)), error)

    def _give_up(self, lost: Lost, error: RunError) -> None:
        """Go on without what is lost where that can be, or end the run.

        Args:
            lost: Empty where it is not known what to do without. A requester that is there and
                answers nothing would not either when it is fed again.
            error: What to say in the end.
        """
        is_there = not self._recovery.lacks_requester
        if not (self._recovery.is_wanted and lost) or (
            is_there and self._requester in lost.devices
        ):
            self.tracker.fail(error)
            return
        found_s = time.monotonic()
        self._recovery.do_without(lost)
        again = self.tracker.suspend()
        self._struck += [*self.retiring, self.deployment]
        self.retiring.clear()
        self._halt = Halt(found_s, error, again)
        self._go_on(self._halt)

    def _go_on(self, halt: Halt) -> None:
        """Have what is left take over, once the requester is there, or end the run."""
        is_news = halt.until_s is None or not self._recovery.lacks_requester
        try:
            if self._recovery.end(halt, self._deploy) is None:
                self._failures.clear()  # of what is over
                self._retire_struck()
                if is_news and self._requester in self._group.endpoint.peers():
                    self.arrived.append(self._requester)  # it is there, though it did not answer
                return
            self.tracker.await_answers(self._recovery.changes[-1:])
        except RunError as fault:
            self.tracker.fail(fault)
        self._halt = None
        self._retire_struck()

    def _deploy(self, compiled: Deployable) -> Deployment:
        there = set(self._group.names)
        spare = self.standbys.take(compiled.program, there)
        if spare is None:
            self.infos = meet_workers(compiled.program, self._group)
            spare = Deployment(compiled, self._group, self.soon)
        else:
            self.infos = {name: info for name, info in self.infos.items() if name in there}
        self._prepare(spare)
        self._enter(spare)
        return spare

    def _prepare(self, spare: Deployment) -> None:
        """Load what takes over beside what was struck; where memory has no room for both, after."""
        try:
            if not spare.is_prepared:
                spare.prepare(self.infos)
        except LinkError:
            raise
        except RunError:
            if not self._struck:
                raise
            self._retire_struck()
            self._past.wait()
            spare.prepare(self.infos)

    def _enter(self, deployment: Deployment) -> None:
        """Feed under an epoch that is prepared."""
        self.deployment = deployment
        self.plans[deployment.epoch] = deployment.program.plan_hash
        self._group.beats.expect(deployment.devices)
        self.tracker.resume(deployment)
