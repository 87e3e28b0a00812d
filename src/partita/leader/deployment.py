"""One epoch on the workers: content pushed, fragments loaded and calibrated, and retired."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from partita.errors import EndpointError, LinkError, RunError
from partita.leader.push import push_contents
from partita.leader.worker_group import WorkerGroup
from partita.naming import is_endpoint
from partita.program import Program
from partita.worker.messages import (
    Calibrate,
    Have,
    Info,
    Missing,
    OfEpoch,
    Prepare,
    Progress,
    SpansFrom,
    Stats,
    WorkerSpan,
    WorkerSpans,
    check_formats,
)

#: Loading takes at least some milliseconds per fragment.
_POLL_S = 0.01
#: About 500 kB per answer.
_SPANS_PER_CALL = 10_000
#: Workers of the rest are known: who does not show up in this time is lost, too.
_PRESENT_S = 1.0


class Deployable(Protocol):
    """What can be deployed: a program, and the content that it names by hash."""

    @property
    def program(self) -> Program:
        """The steps of all devices."""

    @property
    def graphs(self) -> Mapping[str, bytes]:
        """Fragments by SHA-256."""

    @property
    def blobs(self) -> Mapping[str, Any]:
        """Weights (bytes or arrays) by SHA-256."""


@dataclass(frozen=True)
class DeployOptions:
    """How a plan is brought to the workers, and how patient the session is.

    Attributes:
        wait_s: Longest wait for missing workers.
        load_s: Longest wait for all fragments to be loaded and calibrated.
        repeats: Runs per fragment when an emulated device is calibrated.
        rounds: How often each emulated device is calibrated, apart in time.
        reference_s: The machine's pace when profiled (``CostModel.reference_s``), which emulated
            devices then keep; 0 takes the pace of now.
        quick: Whether the plan is to be ready soon rather than run fast: nothing is prepacked, and
            only emulated devices are timed.
        trace: Whether workers log a span per step.
        is_trial: Whether something is only measured by it, so that nobody is to look on.
        remembered: Answered requests whose times are kept for reports; 100,000 take 4 MB.
        deadline_s: A run in which no step finishes for so long ends.
        silence_s: A worker without a heartbeat for so long is lost; seven by default, so that
            a loss is found within 3 s and a slow scheduler is none.
        planner: The plan's planner, for the report.
        seed: The plan's seed, for the report.
    """

    wait_s: float = 10.0
    load_s: float = 120.0
    repeats: int = 5
    rounds: int = 3
    reference_s: float = 0.0
    quick: bool = False
    trace: bool = True
    is_trial: bool = False
    remembered: int = 100_000
    deadline_s: float = 30.0
    silence_s: float = 1.75
    planner: str = ""
    seed: int = 0


class Deployment:
    """A program under one epoch.

    Args:
        group: The workers that it needs; all are there.

    Attributes:
        is_prepared: Whether requests may be fed; what stands by may only be about to be.
    """

    def __init__(self, compiled: Deployable, group: WorkerGroup, options: DeployOptions) -> None:
        self.program = compiled.program
        self.is_prepared = False
        self._is_retired = False
        # Drawn, so that leaders do not collide, whatever their clocks say.
        self.epoch = 1 + secrets.randbits(61)
        self.pushed_bytes = 0
        self.compiled = compiled
        self._group = group
        self.options = options
        self.devices = tuple(part.device for part in compiled.program.devices)
        #: What each device was at last asked to do, for people.
        self._steps: dict[str, str] = {}

    def prepare(self, infos: Mapping[str, Info]) -> None:
        """Push, load, time and activate; afterwards requests may be fed.

        Raises:
            LinkError: A worker, or what computes in its place, was lost; the message names it and
                the step that it was at.
            RunError: A worker refused or failed, or has not a format in which the program sends.
                In either case the epoch is retired everywhere.
        """
        check_formats(self.program, infos)
        self._is_retired = False  # it may be tried again
        try:
            self._group.each(self._install, self.devices)
            slowed = [name for name in self.devices if infos[name].slow_down > 1]
            if not self.options.quick:
                self._group.each(self._calibrate, [n for n in self.devices if n not in slowed])
            # Emulated devices share a machine: each is timed while the others rest, and more than
            # once, because the machine itself is slow at times.
            for name in slowed * self.options.rounds:
                self._calibrate(name)
            self._group.each(self._activate, self.devices)
        except BaseException as error:
            self.retire()
            if type(error) is LinkError and error.device in self._steps:
                raise self._explain(error) from error
            raise
        self.is_prepared = True

    def stand_by(self, infos: Mapping[str, Info], breathe: Callable[[float], None]) -> None:
        """Push all content; workers keep it until the epoch is retired or the leader is gone.

        Afterwards :meth:`prepare` has nothing to send.

        Args:
            breathe: See :func:`push_contents`.

        Raises:
            RunError: A worker is lost or has no room; the epoch is retired then.
        """

        def keep(device: str) -> None:
            self._check_wanted()
            contents = self._contents(device)
            place, beside = (device, self.epoch), (device,)
            self.pushed_bytes += push_contents(
                self._group, place, contents, self.options.load_s, beside=beside, breathe=breathe
            )
            have = Have(self.epoch, tuple(contents), self._group.endpoint.name)
            self._group.ask(device, "have", have, Missing, timeout_s=self.options.load_s)

        try:
            check_formats(self.program, infos)
            self._group.each(keep, self.devices)
        except BaseException:
            self.retire()
            raise

    def retire(self) -> None:
        """Take the epoch down on every worker, where it does not answer when it does again."""
        self._is_retired = True
        self._group.each(partial(self._group.retire, self.epoch), self.devices)

    def stats(self, device: str, timeout_s: float = 1.0) -> Stats:
        """The totals of the epoch on a device so far."""
        epoch = OfEpoch(self.epoch)
        return self._group.ask(device, "stats", epoch, Stats, timeout_s=timeout_s)

    def spans(self, device: str) -> list[WorkerSpan]:
        """All spans that a device kept, on its own clock."""
        spans: list[WorkerSpan] = []
        while True:
            order = SpansFrom(self.epoch, len(spans), _SPANS_PER_CALL)
            more = self._group.ask(device, "spans", order, WorkerSpans).marks
            spans += more
            if len(more) < _SPANS_PER_CALL:
                return spans

    def _contents(self, device: str) -> dict[str, Any]:
        """All content that a device needs, graphs before weights."""
        infos = fragments_of(self.program, device)
        graphs = {info.hash: self.compiled.graphs[info.hash] for info in infos}
        blobs = {name: self.compiled.blobs[name] for info in infos for name in info.blobs}
        return {**graphs, **blobs}

    def _install(self, device: str) -> None:
        """Push and load at once: a worker keeps content for no more than a lease in between."""
        self._push(device)
        self._load(device)

    def _push(self, device: str) -> None:
        self._steps[device] = "send its part"
        contents = self._contents(device)
        self.pushed_bytes += push_contents(
            self._group,
            (device, self.epoch),
            contents,
            self.options.load_s,
            beside=self.devices,
            breathe=lambda seconds: self._check_wanted(),
        )

    def _check_wanted(self) -> None:
        """Raise once the epoch is to be retired: threads may be at work when that is decided.

        Raises:
            RunError: It is.
        """
        self._group.check_wanted()
        if self._is_retired:
            raise RunError("The plan was given up while it was deployed.")

    def _load(self, device: str) -> None:
        self._check_wanted()
        self._steps[device] = "load its part"
        own = msgspec.structs.replace(self.program, devices=(self.program.device(device),))
        leader, prepack = self._group.endpoint.name, not self.options.quick
        order = Prepare(self.epoch, own, leader, self.options.trace, prepack)
        self._group.tell(device, "prepare", order)
        self._wait(device, "load")

    def _calibrate(self, device: str) -> None:
        self._check_wanted()
        self._steps[device] = "time its part"
        order = Calibrate(self.epoch, self.options.repeats, self.options.reference_s)
        self._group.tell(device, "calibrate", order)
        self._wait(device, "calibrate")

    def _activate(self, device: str) -> None:
        self._check_wanted()
        self._steps[device] = "activate its part"
        self._group.tell(device, "activate", OfEpoch(self.epoch))

    def _explain(self, error: LinkError) -> LinkError:
        """The error for a worker that was lost before the plan ran."""
        device = error.device
        why = "it left the network" if self._group.has_left(device) else "it does not answer"
        return LinkError(
            f"Device {device!r} is lost: {why}, while the plan was deployed, in step"
            f" '{self._steps[device]}'. Restart its worker and run again.",
            device=device,
            step=self._steps[device],
        )

    def _wait(self, device: str, what: str) -> None:
        deadline_s = time.monotonic() + self.options.load_s
        while True:
            self._check_wanted()
            self._group.require(self.devices, "progress")
            progress = self._group.ask(device, "progress", OfEpoch(self.epoch), Progress)
            if progress.error:
                kind = EndpointError if is_endpoint(progress.peer) else RunError
                raise kind(
                    f"Device {device!r} cannot {what} its part: {progress.error}", device=device
                )
            if not progress.busy:
                return
            if time.monotonic() > deadline_s:
                raise RunError(
                    f"Device {device!r} did not {what} its part within {self.options.load_s:g} s: "
                    f"{progress.done} of {progress.total} fragments are done. Allow more time.",
                    device=device,
                )
            time.sleep(_POLL_S)


def bring(
    compiled: Deployable, group: WorkerGroup, options: DeployOptions, wait_s: float = _PRESENT_S
) -> tuple[Deployment, dict[str, Info]]:
    """What is compiled, prepared under an epoch of its own, and facts about its devices.

    Args:
        group: Gets the devices that it lacks.
        wait_s: Longest wait for missing workers.

    Raises:
        LinkError: A worker is missing, or was lost under way.
        RunError: One is of another version, refuses or fails; nothing stays prepared.
    """
    infos = meet_workers(compiled.program, group, wait_s)
    deployment = Deployment(compiled, group, options)
    deployment.prepare(infos)
    return deployment, infos


def meet_workers(
    program: Program, group: WorkerGroup, wait_s: float = _PRESENT_S
) -> dict[str, Info]:
    """Facts about the devices of a program, which are members of the group then.

    Other members are not waited for: whoever added them may not know that they are lost.

    Raises:
        LinkError: A worker is missing after ``wait_s``, or was lost under way.
        RunError: One is of another version.
    """
    names = [part.device for part in program.devices]
    group.add(names)
    group.wait(wait_s, names)
    return group.greet(names)


def fragments_of(program: Program, device: str) -> tuple[Any, ...]:
    """The fragments of the device's program, each once, in order of first use."""
    indices: dict[int, None] = {}
    for step in program.device(device).steps:
        fragment = getattr(step, "fragment", None)
        if fragment is not None:
            indices[fragment] = None
    return tuple(program.fragments[index] for index in indices)
