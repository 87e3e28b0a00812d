"""From a compiled plan to a session."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from partita.errors import LinkError, RunError
from partita.execution import AdaptOptions
from partita.fabric import Endpoint
from partita.leader.deployment import Deployable, Deployment, DeployOptions, bring
from partita.leader.losses import Lost
from partita.leader.planning import Planning
from partita.leader.recovery import REQUESTER_WAIT_S, Recovery, ReplanWithout
from partita.leader.session import Session
from partita.leader.worker_group import WorkerGroup
from partita.program import Program
from partita.worker.messages import Info

_DEFAULT = DeployOptions()


def deploy(
    compiled: Deployable,
    endpoint: Endpoint,
    options: DeployOptions = _DEFAULT,
    *,
    replan: ReplanWithout | None = None,
    adapting: tuple[Planning, AdaptOptions] | None = None,
    standby: Deployable | None = None,
    gone: Mapping[str, str] | None = None,
) -> Session:
    """A session that runs ``compiled`` on the workers that ``endpoint`` reaches.

    Waits for the workers, checks their versions, pushes the content that they lack, has it loaded
    and timed (emulated devices one after another), and activates it.

    Args:
        compiled: A program and the content that it names by hash.
        endpoint: The leader's own; its callbacks are taken over. The session does not close it.
        options: Patience, tracing, and who made the plan.
        replan: Called with the devices and links that are lost, from here on; returns what the rest
            can run. None ends the deployment, and the run, with an error on a loss.
        adapting: Who plans anew when links or devices change, made for this plan, and when. None
            keeps the plan.
        standby: What is loaded beside it, for when ``replan`` gives the same program; on devices of
            the first program.
        gone: Devices that are lost from the begin on, each with why.

    Raises:
        RunError: A worker is missing, lost and not done without, refuses or fails; nothing stays.
    """
    program, requester = compiled.program, compiled.program.requester
    group = WorkerGroup(endpoint, [part.device for part in program.devices])
    wait_s = 0.0 if adapting is None else REQUESTER_WAIT_S
    recovery = Recovery(group, replan, requester, options.silence_s, wait_s)
    try:
        _leave_out(gone or {}, program, recovery, adapting)
        deployment, infos = bring(compiled, group, options, options.wait_s)
        spare = None if standby is None else _prepare_beside(deployment, infos, standby, group)
    except RunError as fault:
        found_s = time.monotonic()
        is_known = fault.device in recovery.lost.devices
        if not recovery.is_wanted or not (is_known or recovery.is_loss(fault)):
            raise
        recovery.take_losses()
        if recovery.lacks_requester:
            raise
        rest = partial(bring, group=group, options=options)
        (deployment, infos), spare = recovery.go_on(found_s, fault, rest), None
    return Session(group, deployment, infos, options, recovery, adapting=adapting, standby=spare)


def _leave_out(
    gone: Mapping[str, str],
    program: Program,
    recovery: Recovery,
    adapting: tuple[Planning, AdaptOptions] | None,
) -> None:
    """Count devices as lost, with whoever plans, before anybody is asked.

    Raises:
        LinkError: The program needs one of them, its requester first.
    """
    if gone and program.requester not in gone:
        recovery.do_without(Lost(tuple(gone)))
        if adapting is not None:
            adapting[0].set_lost(recovery.lost)
    for device in (program.requester, *(part.device for part in program.devices)):
        if device in gone:
            raise LinkError(f"Device {device!r} is lost: {gone[device]}.", device=device)


def _prepare_beside(
    deployment: Deployment, infos: Mapping[str, Info], standby: Deployable, group: WorkerGroup
) -> Deployment:
    """The epoch of what stands by; the first one is retired where that fails."""
    spare = Deployment(standby, group, deployment.options)
    try:
        spare.prepare(infos)
    except BaseException:
        deployment.retire()
        raise
    return spare
