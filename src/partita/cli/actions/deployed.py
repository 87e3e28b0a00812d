"""A plan deployed on workers, with what plans anew for it: what runs and services begin with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from partita.adapting.replanner import Replanner
from partita.api import Access, check_members
from partita.cli.access import is_emulated
from partita.cli.actions.anew import make_search
from partita.cli.actions.simulate import read_adapt
from partita.cli.flags import AdaptFlags
from partita.cli.interrupt import abandon
from partita.cli.output import say
from partita.cli.sources import Loaded
from partita.compile import Compiled, compile_plan
from partita.cost import CostModel
from partita.errors import LinkError, RunError
from partita.execution import AdaptOptions
from partita.execution.adapt import LOSSES_ONLY
from partita.fabric import Endpoint
from partita.host import machine_name
from partita.leader import DeployOptions, Lost, Session, deploy, put_off, refine_cost
from partita.leader.worker_group import WorkerGroup
from partita.plan import Plan

#: Seconds that workers may take to appear, and those that can be done without, and be used later.
_WAIT_S, _SOON_S = 10.0, 3.0
#: Answered requests whose times a service keeps: what is usual is found from the last ones.
_SERVICE_REMEMBERS = 1000
#: Why a device is done without from the start.
_ABSENT = "its worker is not there (start it)"
#: All were there a moment ago: one that is not any more was lost.
_STILL_S = 1.0


@dataclass(frozen=True)
class Opened:
    """A session with what plans for it.

    Attributes:
        planned: What everything costs without the workers' fixed costs.
        cost: With them.
        replanner: Knows the plan in force.
    """

    session: Session
    planned: CostModel
    cost: CostModel
    replanner: Replanner


@contextlib.contextmanager
def open_session(
    loaded: Loaded,
    leader: contextlib.AbstractContextManager[Endpoint],
    cost: CostModel,
    flags: AdaptFlags,
    *,
    outsiders: Mapping[str, str],
    is_service: bool = False,
) -> Iterator[Opened]:
    """Deploy a plan; yield the session, ready to run.

    Args:
        leader: The endpoint that it has for itself.
        outsiders: Devices that are no members, each with why: done without, or refused.
        is_service: Whether it runs on and on, and nobody asks for a report.
    """
    plan, fallback = loaded.plan, loaded.plan.fallback
    recovers = flags.recover or fallback is not None
    compiled = compile_plan(loaded.graph, plan, loaded.cluster)
    devices = [part.device for part in compiled.program.devices]
    check_members(() if recovers else devices, outsiders)
    members = [name for name in devices if name not in outsiders]
    say("connecting to the workers")
    with leader as endpoint:
        put_off(endpoint, "measuring what messages cost, and deploying its plan")
        requester = compiled.program.requester
        absent = _await_workers(endpoint, members, requester, recovers=recovers)
        gone = {**outsiders, **absent}
        refined = cost
        is_predicted = not is_service or flags.adapt or recovers
        if is_predicted and not gone.keys() & set(devices):  # else the plan will not run
            say("measuring what messages cost")
            refined = _refine(endpoint, cost, compiled, recovers=recovers)
        replanner = Replanner(refined, plan, make_search(plan, flags, cost))
        watching = read_watching(flags)

        standby = None if fallback is None else compile_plan(loaded.graph, fallback, loaded.cluster)
        say("deploying")
        session = deploy(
            compiled,
            endpoint,
            _make_options(plan, cost, is_service=is_service),
            replan=partial(_replan, replanner) if recovers else None,
            adapting=None if watching is None else (replanner, watching),
            gone=gone,
            standby=standby,
        )
        with _running(session):
            yield Opened(session, cost, refined, replanner)


def _await_workers(
    endpoint: Endpoint, names: Sequence[str], requester: str, *, recovers: bool
) -> dict[str, str]:
    """Wait for workers; of what recovers, return those that are done without, each with why.

    Raises:
        LinkError: One that is needed is missing.
    """
    group = WorkerGroup(endpoint, names)
    try:
        group.wait(_SOON_S if recovers else _WAIT_S)
    except LinkError:
        if not recovers:
            raise
        group.wait(_WAIT_S, (requester,))
    absent = tuple(name for name in names if name not in endpoint.peers())
    if absent:
        say(f"going on without {Lost(absent)}: not there after {_SOON_S:g} s")
    return dict.fromkeys(absent, _ABSENT)


@contextlib.contextmanager
def _running(session: Session) -> Iterator[None]:
    """A session that ends with the context; the process waits for nothing that goes on then."""
    try:
        with session:
            say("running")
            yield
    finally:
        if session.has_stragglers:
            abandon("a search, or a worker that does not answer")


def _replan(replanner: Replanner, lost: Lost) -> Compiled:
    """What goes on without what is lost; says so."""
    fallback = replanner.plan.fallback
    if not lost:
        say("deploying again")
    elif fallback is None:
        say(f"planning without {lost}")
    else:
        known = (
            "" if fallback.accuracy is None else f", accuracy {fallback.accuracy:.3g} as planned"
        )
        say(f"going on without {lost} by the fallback{known}")
    return replanner.recover(lost)


def _make_options(plan: Plan, cost: CostModel, *, is_service: bool) -> DeployOptions:
    options = DeployOptions(
        wait_s=_STILL_S, planner=plan.planner, seed=plan.seed, reference_s=cost.reference_s
    )
    if is_service:
        options = replace(options, trace=False, remembered=_SERVICE_REMEMBERS)
    return options


def _refine(
    endpoint: Endpoint, cost: CostModel, compiled: Compiled, *, recovers: bool
) -> CostModel:
    """The costs with what workers take on top, as measured; without that where one is lost."""
    try:
        return refine_cost(endpoint, cost, compiled.program)
    except RunError as error:  # of what is wrong with more than this the deployment tells
        if not recovers:
            raise
        say(f"messages were not measured: {error.message}")
        return cost


def read_watching(flags: AdaptFlags) -> AdaptOptions | None:
    """When to plan anew beside what runs; None for never."""
    if flags.adapt:
        return read_adapt(flags)
    return LOSSES_ONLY if flags.recover else None


def find_unlike_lab(cost: CostModel, plan: Plan, access: Access) -> tuple[str, ...]:
    """The plan's devices that the lab runs at another speed than priced; none without a lab."""
    return list_unlike_lab(cost, [plan]) if is_emulated(cost.cluster, access) else ()


def list_unlike_lab(cost: CostModel, plans: Sequence[Plan]) -> tuple[str, ...]:
    """Devices of some plans whose price is not this machine's speed over the slow-down, a lab's.

    Those are priced by their kind or array, or by a profile of another machine.
    """
    stages = [stage for plan in plans for stage in plan.stages]
    computing = {shard.device for stage in stages for shard in stage.shards}
    unlike = []
    for device in cost.cluster.devices:
        profile, factor = cost.find_profile(device)
        is_like = profile is not None and (profile.machine, factor) == (
            machine_name(),
            device.slow_down,
        )
        if device.name in computing and not device.endpoint and not is_like:
            unlike.append(device.name)
    return tuple(unlike)
