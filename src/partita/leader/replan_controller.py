"""The policy of changing plans on real workers: measure, search, prepare, switch."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from math import isinf
from typing import TypeVar

from partita.errors import PartitaError, RunError, name_error
from partita.execution import Policy
from partita.execution.adapt import (
    AdaptOptions,
    Answered,
    Change,
    Conditions,
    Decision,
    Event,
    Failed,
    Measured,
    ProbeLink,
    Replan,
    Switched,
)
from partita.execution.durations import Pair
from partita.leader.arrivals import Arrivals
from partita.leader.change_log import ChangeLog
from partita.leader.deployment import Deployable, Deployment, DeployOptions
from partita.leader.failure_monitor import FailureMonitor
from partita.leader.links import measure_rate
from partita.leader.losses import Lost
from partita.leader.patience import Patience
from partita.leader.planning import Planning
from partita.leader.rate_monitor import RateMonitor
from partita.leader.worker_group import WorkerGroup
from partita.program import Program
from partita.worker.messages import Stats

_LOG = logging.getLogger(__name__)

#: Interval of samples: eight in the default window of 2 s, whose median counts.
SAMPLE_S = 0.25
#: A probe is as large as a link carries in this time, within limits: long beside a context switch,
#: and small beside the traffic of a link that is probed every 5 s.
_PROBE_S = 0.02
_PROBE_BYTES = (16_384, 1_048_576)
#: Why a search is made at once: what took over was ready, not chosen among others.
_STOOD_BY = "what stood by took over for a loss"
#: Of a change that came too late.
_OVERTAKEN = "a device was lost meanwhile"
#: Emulated devices are calibrated beside the running epoch, so less often than before a run.
_REPEATS, _ROUNDS = 3, 1
T = TypeVar("T")


class ReplanController:
    """One thread that measures, and two that search, prepare and probe, from :meth:`begin` on.

    Args:
        planning: Made for the running plan.
    """

    def __init__(
        self,
        monitor: FailureMonitor,
        group: WorkerGroup,
        planning: Planning,
        options: AdaptOptions,
        deploying: DeployOptions,
    ) -> None:
        self._monitor = monitor
        self._group = group
        self._planning = planning
        self._options = options
        self._deploying = replace(deploying, repeats=_REPEATS, rounds=_ROUNDS)
        self._origin_s = 0.0
        self._job: Future[Event | None] | None = None
        self._arrivals = Arrivals(monitor, group, planning)
        self._drains: deque[tuple[str, Future[None]]] = deque()
        self._probe: Future[tuple[Pair, float]] | None = None
        self._past = ChangeLog()
        self._ended = threading.Event()
        self._pool: ThreadPoolExecutor | None = None
        self._thread: threading.Thread | None = None

    @property
    def changes(self) -> list[Change]:
        """The last searches and their outcomes; times in seconds since the run began."""
        with self._past.lock:
            changes = self._policy.changes if self._pool is not None else []
            return [*self._past.last, *(change.shifted(self._origin_s) for change in changes)]

    @property
    def forgotten(self) -> Mapping[str, int]:
        """How many earlier searches there were, by their outcomes."""
        return self._past.forgotten

    @property
    def is_settled(self) -> bool:
        """Whether the running plan is neither on trial nor about to be changed."""
        return self._pool is None or (self._job is None and self._policy.is_settled)

    def begin(self) -> None:
        """Begin to measure and to count seconds; earlier changes are dropped."""
        self._stop(Patience())
        self._ended.clear()
        self._origin_s = time.monotonic()
        self._past = ChangeLog()
        self._follow_epoch()
        self._pool = ThreadPoolExecutor(2, "leader-adapt")
        self._thread = threading.Thread(target=self._run, name="leader/adapt", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let the threads end; a search that is under way ends unused."""
        self._ended.set()
        self._arrivals.end()

    def close(self, patience: Patience) -> bool:
        """End the threads; whether they did in time."""
        self.end()
        is_over = self._stop(patience)
        return self._arrivals.close(patience) and is_over

    def _stop(self, patience: Patience) -> bool:
        self._ended.set()
        is_over = patience.join(self._thread)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        is_over &= patience.wait(self._job, self._probe)
        self._job = self._probe = None
        for order in list(self._drains):
            self._conclude(order, RunError("The session ended."))
        return is_over

    def _follow_epoch(self, why: str = "") -> None:
        """Begin anew with the epoch that runs now.

        Args:
            why: Why to search at once, beside what the plan itself says.
        """
        self._deployment = self._prepared = self._monitor.deployment
        self._answers = self._monitor.tracker.answers
        key, epoch = self._planning.key, self._deployment.epoch
        in_flight = self._deployment.program.in_flight
        self._policy = Policy(
            self._planning.assumed,
            key,
            self._options,
            epoch=epoch,
            in_flight=in_flight,
            why=_STOOD_BY if self._planning.stood_by else why,
        )
        self._rate_monitor = self._make_rate_monitor(key)

    def _make_rate_monitor(self, key: str) -> RateMonitor | None:
        """What measures a plan; None where no drift is a reason to change it."""
        if isinf(self._options.threshold):
            return None
        paced = frozenset(name for name, info in self._monitor.infos.items() if info.paced)
        return RateMonitor(self._planning.expect(key), paced)

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            try:
                with contextlib.suppress(PartitaError):  # a lost worker is the monitor's matter
                    self._step()
            except RuntimeError:  # pools that end take nothing more
                if not self._ended.is_set():
                    raise

    def _step(self) -> None:
        event: Event | None = None
        if self._job is not None and self._job.done():
            event, self._job = self._job.result(), None
            if isinstance(event, Switched):
                self._deployment = self._prepared
                self._rate_monitor = self._make_rate_monitor(self._planning.key)
            if event is not None:
                self._tell(event)
        if self._monitor.deployment is not self._deployment and self._job is None:
            # Other devices took over for a lost one, or the old plan had to be loaded again.
            was_overtaken = isinstance(event, Failed) and bool(self._policy.changes)
            why = self._policy.changes[-1].why if was_overtaken else self._policy.pending
            self._keep_changes(0)
            self._follow_epoch(why)
        self._keep_changes(1)
        if self._pool is not None and self._job is None and self._drains:
            self._job = self._pool.submit(_catch, self._drain, self._drains[0])
        if self._drains:  # what is decided meanwhile, for the old plan, would overtake it
            return
        for event in self._arrivals.look():
            self._tell(event)
        self._tell(self._measure())
        requests = self._monitor.tracker.latest(self._answers)
        self._answers += len(requests)
        for request in requests:
            latency_s = request.end_s - request.start_s
            self._tell(Answered(request.epoch, latency_s, request.end_s))

    def _keep_changes(self, but: int) -> None:
        """Take what is over from the policy: all of its changes but the last ``but``."""
        with self._past.lock:
            while len(self._policy.changes) > but:
                self._past.add(self._policy.changes.pop(0).shifted(self._origin_s))

    def _tell(self, event: Event) -> None:
        for decision in self._policy.handle(time.monotonic(), event):
            self._act(decision)

    def drain(self, device: str) -> None:
        """Plan around a device; afterwards nothing of this session is on it.

        Raises:
            PartitaError: It is the requester, is not of the session, or nothing can do without it.
        """
        if device in self._monitor.lost.devices:
            return  # it is free
        requester, lost = self._monitor.deployment.program.requester, self._monitor.lost.devices
        there = [name for name in self._planning.roster if name not in (requester, *lost)]
        if device not in there:
            raise RunError(
                f"Device {device!r} cannot be drained: allowed are"
                f" {', '.join(map(repr, there)) or 'none'}; inputs come in at {requester!r}.",
                device=device,
            )
        if self._pool is None:
            raise RunError("The session has not begun.")
        future: Future[None] = Future()
        self._drains.append((device, future))
        future.result()

    def _drain(self, order: tuple[str, Future[None]]) -> None:
        try:
            self._go_without(order[0])
        except Exception as error:  # the run goes on as before
            self._conclude(order, error)
        else:
            self._conclude(order)

    def _conclude(self, order: tuple[str, Future[None]], error: Exception | None = None) -> None:
        """Answer who asked for a drain, unless the session's end has."""
        try:
            self._drains.remove(order)
        except ValueError:  # it has
            return
        if error is None:
            order[1].set_result(None)
        else:
            order[1].set_exception(error)

    def _go_without(self, device: str) -> None:
        """Switch to a plan without a device, and let it go once the old one is over."""
        at_s, switched_s = time.monotonic(), None
        self._monitor.count_lost(device, is_lost=True)
        lost = self._monitor.lost
        while device in (old := self._monitor.deployment).devices:
            try:
                compiled = self._planning.stand_by(old.program.plan_hash, lost, search=False)
                self._move(old, compiled)
            except PartitaError:
                if old is not self._monitor.deployment and not self._ended.is_set():
                    continue  # another plan, or the same loaded again, runs by now
                self._monitor.count_lost(device, is_lost=False)
                raise
            switched_s = time.monotonic()
            key = self._planning.key_of(compiled.program.plan_hash)
            self._planning.take_over(key, lost)
            for past in (*self._monitor.retiring, old):
                self._monitor.await_end(past, self._deploying.deadline_s)
        if switched_s is None:
            self._planning.set_lost(lost)
        detail = f"without {Lost((device,))}"
        change = Change(at_s, f"{device} is drained", "drained", detail, switched_s=switched_s)
        self._monitor.let_go(device, change)
        self._group.settle(device)

    def _measure(self) -> Measured:
        if self._rate_monitor is None:
            return Measured()
        measured = self._rate_monitor.sample(self._ask_stats())
        probe = self._probe
        if probe is None or not probe.done():
            return measured
        self._probe = None
        try:
            pair, rate = probe.result()
        except PartitaError:
            return measured  # the link or its device is gone for now
        return Measured({pair: rate, **measured.rates}, measured.slowness)

    def _ask_stats(self) -> dict[str, Stats]:
        deployment = self._deployment

        def ask(name: str) -> Stats | None:
            try:
                return deployment.stats(name)
            except RunError:
                return None

        answers = self._group.each(ask, deployment.devices)
        return {name: stats for name, stats in answers.items() if stats is not None}

    def _act(self, decision: Decision) -> None:
        if self._pool is None:
            return
        if isinstance(decision, ProbeLink):
            if self._probe is None:
                rate = self._policy.current.rates[decision.pair]
                self._probe = self._pool.submit(self._measure_link, decision.pair, rate)
        elif isinstance(decision, Replan):
            self._job = self._pool.submit(_catch, self._search, decision.conditions)
        else:
            self._job = self._pool.submit(_catch, self._change_to, decision.key)

    def _search(self, conditions: Conditions) -> Event:
        lost = self._monitor.lost
        if self._deployment.program.requester in lost.devices:
            raise RunError(_OVERTAKEN)
        self._planning.set_lost(lost)
        return self._planning.propose(conditions)

    def _measure_link(self, pair: Pair, rate: float) -> tuple[Pair, float]:
        size = int(min(max(rate * _PROBE_S, _PROBE_BYTES[0]), _PROBE_BYTES[1]))
        return pair, measure_rate(self._group.endpoint, *pair, size)

    def _change_to(self, key: str) -> Event:
        """Admit requests under a plan."""
        new = self._move(self._deployment, self._planning.compile(key))
        self._planning.adopt(key)
        self._prepared = new
        return Switched(new.epoch)

    def _move(self, old: Deployment, compiled: Deployable) -> Deployment:
        """Prepare a program and admit requests under it.

        Raises:
            RunError: It cannot be prepared, or another one runs by now; the old one runs on.
        """
        if old is not self._monitor.deployment:
            raise RunError(_OVERTAKEN)
        self._monitor.add_workers(compiled.program, self._deploying.wait_s)
        is_drained = not self._fits(compiled.program)
        if is_drained and not self._monitor.drain(old, self._deploying.deadline_s):
            raise RunError("the old plan did not come to its end in time to make room")
        new = Deployment(compiled, self._group, self._deploying)
        try:
            new.prepare(self._monitor.infos)
        except RunError:
            if is_drained:
                self._restore(old)
            raise
        if self._ended.is_set() or not self._monitor.switch(old, new):
            new.retire()
            raise RunError(_OVERTAKEN)
        return new

    def _fits(self, program: Program) -> bool:
        """Whether workers have memory for a program beside the epochs that run."""
        running = (*self._monitor.retiring, self._monitor.deployment)
        held = self._planning.held_bytes([program, *(each.program for each in running)])
        limits = {part.device: self._monitor.infos[part.device] for part in program.devices}
        return all(
            not info.memory_limit_bytes or held[device] <= info.memory_limit_bytes
            for device, info in limits.items()
        )

    def _restore(self, old: Deployment) -> None:
        """Run the old plan again, after it made room in vain."""
        try:
            again = Deployment(self._planning.compile(self._planning.key), self._group, old.options)
            again.prepare(self._monitor.infos)
        except RunError as error:
            self._monitor.tracker.fail(error)
            return
        if not self._monitor.switch(old, again):
            again.retire()


def _catch(call: Callable[[T], Event | None], argument: T) -> Event | None:
    try:
        return call(argument)
    except PartitaError as error:
        return Failed(error.message)
    except Exception as error:  # the run goes on without the change
        _LOG.debug("The change of plan failed.", exc_info=True)
        return Failed(name_error(error))
