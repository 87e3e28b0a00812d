"""A deployed plan: inputs in, outputs out, exactly one answer or one error each."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from partita.errors import InputError, PartitaError, RunError
from partita.execution import AdaptOptions, Change, Report
from partita.fabric.base import Caller, check_process, is_forked
from partita.leader.calls import DRAIN, SAMPLE, LeaderCalls
from partita.leader.deployment import Deployment, DeployOptions
from partita.leader.explain import shorten_cause
from partita.leader.failure_monitor import FailureMonitor
from partita.leader.history import History
from partita.leader.losses import Lost
from partita.leader.patience import Patience
from partita.leader.planning import Planning
from partita.leader.recovery import Recovery
from partita.leader.replan_controller import ReplanController
from partita.leader.requests import AnswerFuture, Arrays, check_inputs, refuse_odd
from partita.leader.run_report import build_report
from partita.leader.sample import Sample, SampleSince, encode_sample, take_sample
from partita.leader.standby_keeper import StandbyKeeper
from partita.leader.worker_group import WorkerGroup
from partita.program import Program
from partita.regions import Array
from partita.worker.leaders import check_leader
from partita.worker.messages import BeginTraces, Drain, Info, Stats, decode_message

#: Longest wait for what works beside a session, when it is closed. Not tuned.
_CLOSE_S = 0.5


class Session:
    """A deployed plan; made by :func:`partita.leader.deploy`, ended by ``close`` or ``with``.

    Args:
        group: The workers; all are there.
        deployment: Prepared and active.
        recovery: Goes on without what is lost, or ends the run; may have done so already.
        adapting: Who plans anew when links or devices change, and when; None keeps the plan.
        standby: Prepared beside it, for when the recovery gives its program.

    Attributes:
        calls: What others may ask of this leader; samples are among it.
        has_stragglers: Whether threads of it have outlasted it: they search, or wait for a worker,
            and end by themselves, unused.
        fallback: The hash of the plan that stood by, prepared, from the start; None without one.
    """

    def __init__(
        self,
        group: WorkerGroup,
        deployment: Deployment,
        infos: Mapping[str, Info],
        options: DeployOptions,
        recovery: Recovery,
        *,
        adapting: tuple[Planning, AdaptOptions] | None = None,
        standby: Deployment | None = None,
    ) -> None:
        self._group = group
        self._options = options
        self._recovery = recovery
        self._monitor = FailureMonitor(group, deployment, infos, options, recovery, standby=standby)
        self._tracker = self._monitor.tracker
        self._first = 0
        self._before = History()
        self.fallback = None if standby is None else standby.program.plan_hash
        self._origin_s = time.monotonic()
        self._is_closed = False
        self.has_stragglers = False
        self._process = os.getpid()
        self.calls = LeaderCalls(group.endpoint, is_open=not options.is_trial)
        self.calls.offer(SAMPLE, self._answer_sample)
        self.calls.offer(DRAIN, self._answer_drain)
        self._controller: ReplanController | None = None
        self._keeper: StandbyKeeper | None = None
        if adapting is not None:
            self._controller = ReplanController(self._monitor, group, *adapting, options)
            if recovery.is_wanted and standby is None:
                planning, controller = adapting[0], self._controller
                self._keeper = StandbyKeeper(
                    self._monitor, group, planning, options, lambda: controller.is_settled
                )

    @property
    def program(self) -> Program:
        """The program that runs now."""
        return self._monitor.deployment.program

    @property
    def deployment(self) -> Deployment:
        """The epoch that runs now."""
        return self._monitor.deployment

    @property
    def error(self) -> PartitaError | None:
        """Why it answers nothing any more; None while it does."""
        return self._tracker.error

    @property
    def infos(self) -> Mapping[str, Info]:
        """Facts about each worker."""
        return self._monitor.infos

    def run(
        self, inputs: Sequence[Mapping[str, Any]], *, in_flight: int | None = None
    ) -> list[Arrays]:
        """The outputs of each of ``inputs``, in their order.

        Args:
            inputs: Per request, an array per model input, of its exact shape and type.
            in_flight: Most requests under way at the same time; the program's own number by
                default, which is also the most that is allowed. 1 feeds the next input after the
                last output.

        Raises:
            InputError: An input does not fit the model; nothing is fed then.
            RunError: A device was lost, a step failed, or an answer did not come in time.
        """
        limit = self.limit_in_flight(in_flight)
        refuse_odd(inputs)
        checked = [check_inputs(self.program.inputs, given) for given in inputs]
        return list(self._answers_of(checked, limit))

    def iterate(
        self, inputs: Iterable[Mapping[str, Any]], *, in_flight: int | None = None
    ) -> Iterator[Arrays]:
        """An iterator over the outputs of each of ``inputs``, in order; see :meth:`run`.

        Inputs are drawn from the iterable only when they can be fed.
        """
        limit = self.limit_in_flight(in_flight)
        refuse_odd(inputs)
        specs = self.program.inputs
        return self._answers_of((check_inputs(specs, given) for given in inputs), limit)

    def limit_in_flight(self, in_flight: int | None = None) -> int:
        """How many requests may be under way: as many as are wanted, or the program's own number.

        Raises:
            InputError: The program was compiled for fewer.
        """
        most = self.program.in_flight
        if in_flight is not None and not 1 <= in_flight <= most:
            raise InputError(
                f"in_flight is {in_flight}: the plan was compiled for 1 to {most}. "
                "Make the plan with a larger --in-flight.",
                subject="in_flight",
            )
        return in_flight or most

    def submit(self, inputs: Mapping[str, Any], *, wait_s: float | None = None) -> AnswerFuture:
        """Feed one request and return its future; blocks while the program's limit is reached.

        Args:
            inputs: An array per model input; they must not change before the answer is there.
            wait_s: Longest wait for room; None waits as long as it takes.

        Raises:
            BusyError: There was no room in that time; the request is forgotten.
            InputError: They do not fit the model.
            RunError: The session has failed or is closed.
        """
        return self._ask(check_inputs(self.program.inputs, inputs), wait_s)

    def begin_report(self) -> None:
        """Let reports begin with the next request, as ``run`` and ``iterate`` do."""
        self._first = self._tracker.count

    def report(self) -> Report:
        """The report of all requests since the last ``run`` or ``iterate`` began, as measured.

        Raises:
            RunError: Nothing was answered yet.
        """
        requests = self._tracker.answered(self._first)
        if not requests:
            raise RunError("There is nothing to report: no request was answered yet.")
        made_by = (self._options.planner, self._options.seed)
        unpaced = {name for name, info in self.infos.items() if not info.paced}
        return build_report(self._monitor.fetch_logs(), requests, made_by, unpaced)

    def latencies_s(self, epoch: int) -> tuple[float, ...]:
        """The seconds of each request that one epoch alone worked on.

        Those since the last ``run`` or ``iterate`` began; not those that a loss had fed again.
        """
        return tuple(
            request.end_s - request.start_s
            for request in self._tracker.answered(self._first)
            if request.epoch == epoch and not request.is_again
        )

    def plans(self) -> tuple[str, ...]:
        """The hash of the plan that gave each answer, in the order of the inputs.

        Those since the last ``run`` or ``iterate`` began, the last 100,000 at most, and of the last
        1024 deployments.
        """
        answered = sorted(self._tracker.answered(self._first), key=lambda request: request.index)
        known = dict(self._monitor.plans)
        return tuple(known[request.epoch] for request in answered if request.epoch in known)

    def stats(self) -> dict[str, Stats]:
        """The totals of each device since the deployment: memory, drops, overruns, waits.

        Overruns are steps of emulated devices that took longer than they should have; a run with
        overruns is no true emulation.

        Raises:
            RunError: A worker does not answer.
        """
        devices = [part.device for part in self.program.devices]
        return self._group.each(self.deployment.stats, devices)

    def sample(self, since: int = 0) -> Sample:
        """What the session does now; workers are asked for totals, which holds up no request.

        Args:
            since: The number of the first answer whose latency is wanted.
        """
        return take_sample(self._monitor, self.lost, self._earlier, self._list_changes(), since)

    @property
    def history(self) -> History:
        """What went on under its name so far, with what went before it."""
        return self._earlier.with_session(self._tracker.answers, self._list_changes()).keep_last()

    def follow(self, before: History) -> None:
        """Let what others see of it go on from where an earlier session is, or ended."""
        self._before = before

    @property
    def _earlier(self) -> History:
        """What went before it, with those of its own changes that are only counted."""
        searches = self._controller.forgotten if self._controller is not None else {}
        return self._before.counting(self._recovery.log.forgotten).counting(searches)

    def _list_changes(self) -> tuple[Change, ...]:
        """Its changes on the leader's clock; its own end is one, unless it was wanted."""
        changes = tuple(change.shifted(-self._origin_s) for change in self.changes)
        error = self._tracker.error
        if error is None or self._tracker.failed_s is None:
            return changes
        return (*changes, Change(self._tracker.failed_s, shorten_cause(error), "ended"))

    def _answer_sample(self, caller: Caller, body: bytes) -> bytes:
        return encode_sample(self.sample(decode_message(body, SampleSince).answers))

    def begin_traces(self) -> None:
        """Let the traces of emulated links begin now; changes count their seconds from here."""
        self._origin_s = time.monotonic()
        begin = BeginTraces(self._origin_s)
        names = [name for name, info in self.infos.items() if info.paced]
        self._group.each(lambda name: self._group.tell(name, "begin_traces", begin), names)
        if self._controller is not None:
            self._controller.begin()

    @property
    def changes(self) -> list[Change]:
        """Recoveries from losses, and searches for another plan, with their outcomes, in order.

        The last 1000 of each.
        Seconds count from :meth:`begin_traces`, or else from the session's begin; they
        are below zero where a loss was found while the plan was deployed.
        """
        searches = self._controller.changes if self._controller is not None else []
        recoveries = [
            self._with_answer(change).shifted(self._origin_s) for change in self._recovery.changes
        ]
        return sorted([*recoveries, *searches], key=lambda change: change.at_s)

    def _with_answer(self, change: Change) -> Change:
        """The change with the time of the first answer after it."""
        if change.switched_s is None:
            return change
        return replace(change, answered_s=self._tracker.first_after(change.switched_s))

    def drain(self, device: str) -> None:
        """Plan around a device that is there; no request is lost, and it is free afterwards.

        A device whose worker starts again after that is used again.

        Raises:
            RunError: The session cannot change its plan, the device is the requester or not of the
                session, or another plan is refused; all goes on as before then.
            PlanError: There is no plan without it.
        """
        if self._controller is None:
            raise RunError(
                "No device can be drained: the session keeps its plan. Deploy it with --recover or"
                " --adapt, or in a program with recover=True."
            )
        self._controller.drain(device)

    def give_up(self, devices: Collection[str], why: str) -> None:
        """Go on without devices that are there, for good, as if they were lost.

        Args:
            why: For people.
        """
        for device in devices:
            if device in self._group.names:
                self._monitor.on_lost(device, why)
            else:
                self._monitor.count_lost(device, is_lost=True)
        self._group.endpoint.shut_out(lambda name: name in devices)

    def _answer_drain(self, caller: Caller, body: bytes) -> bytes:
        device = decode_message(body, Drain).device
        if caller.name != device:
            check_leader(caller, DRAIN)  # of a worker: its own device is passed on by it
        try:
            self.drain(device)
        except PartitaError as error:
            raise RunError(error.message) from None
        return b""

    @property
    def covered(self) -> tuple[str, ...]:
        """Devices for whose loss a plan stands by, its content on the workers."""
        return () if self._keeper is None else self._keeper.covered

    @property
    def lost(self) -> Lost:
        """Devices and links that the session goes on without."""
        return self._recovery.lost

    def close(self) -> None:
        """Take the plan down; requests without an answer end with an error. May be repeated.

        A search, and whoever waits for a worker that hangs, hold it up for a moment only.
        """
        if self._is_closed or is_forked(self._process):
            return  # a fork leaves its parent's plan alone
        self._is_closed = True
        self._group.end()
        self._tracker.close(RunError("The session was closed before the answer came."))
        helpers = [each for each in (self._keeper, self._controller) if each is not None]
        for helper in helpers:
            helper.end()
        patience = Patience(_CLOSE_S)
        are_over = [each.close(patience) for each in (*helpers, self._monitor)]
        self.has_stragglers = not all(are_over)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answers_of(self, checked: Iterable[tuple[Array, ...]], limit: int) -> Iterator[Arrays]:
        self.begin_report()
        under_way: deque[AnswerFuture] = deque()
        for arrays in checked:
            if len(under_way) >= limit:
                self._tracker.wait_below(limit, under_way)
            under_way.append(self._ask(arrays))
            while under_way and under_way[0].done():
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    def _ask(self, arrays: tuple[Array, ...], wait_s: float | None = None) -> AnswerFuture:
        check_process(self._process, "The session")
        if self._is_closed:
            raise RunError("The session is closed; deploy the plan again.")
        return self._tracker.ask(arrays, wait_s)
