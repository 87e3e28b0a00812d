"""Drives the policy of changing plans on real workers: looks, searches, prepares, switches."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol, TypeVar

from partita.errors import PartitaError, RunError
from partita.execution import Policy, weight_bytes
from partita.execution.adapt import (
    AdaptOptions,
    Answered,
    Change,
    Conditions,
    Decision,
    Event,
    Failed,
    Measured,
    Probe,
    Proposed,
    Replan,
    Switched,
)
from partita.execution.durations import Pair
from partita.leader.deployment import Deployable, Deployment, DeployOptions
from partita.leader.failure_monitor import FailureMonitor
from partita.leader.links import measure_rate
from partita.leader.rate_monitor import Expected, RateMonitor
from partita.leader.worker_group import WorkerGroup
from partita.program import Program
from partita.worker.messages import Stats

#: Seconds from one look at the workers to the next.
LOOK_S = 0.25
#: A probe is as large as a link carries in this time, within limits.
_PROBE_S = 0.02
_PROBE_BYTES = (16_384, 1_048_576)
#: Emulated devices are calibrated beside the running epoch, so less often than before a run.
_REPEATS, _ROUNDS = 3, 1
T = TypeVar("T")


class Planning(Protocol):
    """Makes and prices plans; injected, because the leader plans nothing."""

    @property
    def key(self) -> str:
        """Identity of the running plan."""

    @property
    def belief(self) -> Conditions:
        """What the running plan was priced with."""

    def propose(self, belief: Conditions) -> Proposed:
        """Search for a plan on what was measured; may take long."""

    def compile(self, key: str) -> Deployable:
        """Return what runs a plan that was proposed, or that ran before."""

    def expect(self, key: str) -> Expected:
        """Return what a plan's links and steps should take."""

    def adopt(self, key: str) -> None:
        """Take note that a plan runs now."""


class ReplanController:
    """One thread that watches, and one that searches and prepares beside it, from :meth:`begin` on.

    Args:
        guard: Looks after the session.
        crew: Its workers.
        planning: Made for the plan that runs.
        options: When to change.
        deploying: Patience.
    """

    def __init__(
        self,
        guard: FailureMonitor,
        crew: WorkerGroup,
        planning: Planning,
        options: AdaptOptions,
        deploying: DeployOptions,
    ) -> None:
        self._guard = guard
        self._crew = crew
        self._planning = planning
        self._options = options
        self._deploying = replace(deploying, repeats=_REPEATS, rounds=_ROUNDS)
        self._origin_s = 0.0
        self._job: Future[Event] | None = None
        self._probe: Future[tuple[Pair, float]] | None = None
        self._past: list[Change] = []
        self._ended = threading.Event()
        self._pool: ThreadPoolExecutor | None = None
        self._thread: threading.Thread | None = None

    @property
    def changes(self) -> list[Change]:
        """All searches so far and what came of them; times in seconds since the run began."""
        present = self._policy.changes if self._pool is not None else []
        return [*self._past, *(_shift(change, self._origin_s) for change in present)]

    def begin(self) -> None:
        """Watch from now on, and count seconds from here; what was before is forgotten."""
        self.close()
        self._ended.clear()
        self._origin_s = time.monotonic()
        self._past = []
        self._watch_epoch()
        self._pool = ThreadPoolExecutor(2, "leader-adapt")
        self._thread = threading.Thread(target=self._turn, name="leader/adapt", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching; a search that is under way ends unused."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._job = self._probe = None

    def _watch_epoch(self) -> None:
        """Watch the epoch that runs now, with no memory of others."""
        self._deployment = self._brought = self._guard.deployment
        self._answers = self._guard.flight.answers
        key, belief = self._planning.key, self._planning.belief
        epoch = self._deployment.epoch
        self._policy = Policy(belief, key, self._options, epoch=epoch)
        self._watch = self._make_watch(key)

    def _make_watch(self, key: str) -> RateMonitor:
        paced = frozenset(name for name, info in self._guard.infos.items() if info.paced)
        return RateMonitor(self._planning.expect(key), paced)

    def _turn(self) -> None:
        while not self._ended.wait(LOOK_S):
            try:
                self._look()
            except PartitaError:
                # A worker that does not answer is the guard's matter; look again.
                continue

    def _look(self) -> None:
        if self._job is not None and self._job.done():
            event, self._job = self._job.result(), None
            if isinstance(event, Switched):
                self._deployment = self._brought
                self._watch = self._make_watch(self._planning.key)
            self._tell(event)
        if self._guard.deployment is not self._deployment and self._job is None:
            # A device was lost and others took over, or the old plan had to be loaded again.
            self._past = self.changes
            self._watch_epoch()
        self._tell(self._measure())
        answered = self._guard.flight.latest(self._answers)
        self._answers += len(answered)
        for asked in answered:
            self._tell(Answered(asked.epoch, asked.end_s - asked.start_s))

    def _tell(self, event: Event) -> None:
        for decision in self._policy.handle(time.monotonic(), event):
            self._act(decision)

    def _measure(self) -> Measured:
        measured = self._watch.look(self._ask_stats())
        probe = self._probe
        if probe is None or not probe.done():
            return measured
        self._probe = None
        try:
            pair, rate = probe.result()
        except PartitaError:
            # The link or its device is gone for now.
            return measured
        return Measured({pair: rate, **measured.rates}, measured.slowness)

    def _ask_stats(self) -> dict[str, Stats]:
        deployment = self._deployment

        def ask(name: str) -> Stats | None:
            try:
                return deployment.stats(name)
            except RunError:
                return None

        found = self._crew.each(ask, deployment.devices)
        return {name: stats for name, stats in found.items() if stats is not None}

    def _act(self, decision: Decision) -> None:
        if self._pool is None:
            return
        if isinstance(decision, Probe):
            if self._probe is None:
                rate = self._policy.present.rates[decision.pair]
                self._probe = self._pool.submit(self._measure_link, decision.pair, rate)
        elif isinstance(decision, Replan):
            self._job = self._pool.submit(self._guarded, self._search, decision.belief)
        else:
            self._job = self._pool.submit(self._guarded, self._bring, decision.key)

    def _search(self, belief: Conditions) -> Event:
        """Search, and let nobody look through what the search leaves: all threads would stand."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return self._planning.propose(belief)
        finally:
            gc.freeze()
            if was_enabled:
                gc.enable()

    def _guarded(self, work: Callable[[T], Event], what: T) -> Event:
        try:
            return work(what)
        except PartitaError as error:
            return Failed(error.message)
        except Exception as error:  # the run goes on without the change
            return Failed(f"{type(error).__name__}: {error}")

    def _measure_link(self, pair: Pair, rate: float) -> tuple[Pair, float]:
        size = int(min(max(rate * _PROBE_S, _PROBE_BYTES[0]), _PROBE_BYTES[1]))
        return pair, measure_rate(self._crew.endpoint, *pair, size)

    def _bring(self, key: str) -> Event:
        """Prepare a plan and admit under it."""
        old = self._deployment
        if old is not self._guard.deployment:
            return Failed("a device was lost meanwhile")
        compiled = self._planning.compile(key)
        self._hire(compiled.program)
        is_drained = not self._fits(compiled.program)
        if is_drained and not self._guard.drain(old, self._deploying.deadline_s):
            return Failed("the old plan did not come to its end in time to make room")
        new = Deployment(compiled, self._crew, self._deploying)
        try:
            new.prepare(self._guard.infos)
        except RunError as error:
            if is_drained:
                self._restore(old)
            return Failed(error.message)
        if self._ended.is_set() or not self._guard.switch(old, new):
            new.retire()
            return Failed("a device was lost meanwhile")
        self._planning.adopt(key)
        self._brought = new
        return Switched(new.epoch)

    def _hire(self, program: Program) -> None:
        """Have the workers of a program in the crew, and know what they are."""
        missing = [p.device for p in program.devices if p.device not in self._guard.infos]
        self._crew.hire(part.device for part in program.devices)
        self._crew.wait(self._deploying.wait_s)
        if missing:
            self._guard.infos.update(self._crew.greet())

    def _fits(self, program: Program) -> bool:
        """Whether the weights of a program find room beside those of the epochs that run."""
        running = [one.program for one in (*self._guard.retiring, self._guard.deployment)]
        for part in program.devices:
            limit = self._guard.infos[part.device].memory_limit_bytes
            held = sum(
                weight_bytes(one, part.device)
                for one in running
                if any(other.device == part.device for other in one.devices)
            )
            if limit and held + weight_bytes(program, part.device) > limit:
                return False
        return True

    def _restore(self, old: Deployment) -> None:
        """Run the old plan again, after it made room for one that could not be prepared."""
        try:
            again = Deployment(self._planning.compile(self._planning.key), self._crew, old.options)
            again.prepare(self._guard.infos)
        except RunError as error:
            self._guard.flight.fail(error)
            return
        if not self._guard.switch(old, again):
            again.retire()


def _shift(change: Change, origin_s: float) -> Change:
    switched_s = None if change.switched_s is None else change.switched_s - origin_s
    return replace(change, at_s=change.at_s - origin_s, switched_s=switched_s)
