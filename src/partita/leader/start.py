"""From a compiled plan to a session."""

from __future__ import annotations

from partita.errors import RunError
from partita.execution import AdaptOptions
from partita.fabric import Endpoint
from partita.leader.deployment import Deployable, Deployment, DeployOptions
from partita.leader.failure_monitor import ReplanWithout
from partita.leader.replan_controller import Planning
from partita.leader.session import Session
from partita.leader.worker_group import WorkerGroup

_DEFAULT = DeployOptions()


def deploy(
    compiled: Deployable,
    endpoint: Endpoint,
    options: DeployOptions = _DEFAULT,
    *,
    replan: ReplanWithout | None = None,
    adapting: tuple[Planning, AdaptOptions] | None = None,
    standby: Deployable | None = None,
) -> Session:
    """A session that runs ``compiled`` on the workers that ``endpoint`` reaches.

    Waits for the workers, checks their versions, pushes the content that they lack, has it loaded
    and timed (emulated devices one after another), and activates it.

    Args:
        compiled: A program and the content that it names by hash.
        endpoint: The leader's own; its callbacks are taken over. The session does not close it.
        options: Patience, tracing, and who made the plan.
        replan: Called with the devices and links that are lost; returns what the rest can run.
            None ends the run with an error on a loss.
        adapting: Who plans anew when links or devices change, made for this plan, and when. None
            keeps the plan.
        standby: What is loaded beside it, for when ``replan`` gives the same program; on devices of
            the first program.

    Raises:
        RunError: A worker is missing, of another version, refuses or fails; nothing stays active.
    """
    group = WorkerGroup(endpoint, [part.device for part in compiled.program.devices])
    group.wait(options.wait_s)
    infos = group.greet()
    deployment = Deployment(compiled, group, options)
    deployment.prepare(infos)
    spare = None if standby is None else Deployment(standby, group, options)
    if spare is not None:
        try:
            spare.prepare(infos)
        except RunError:
            deployment.retire()
            raise
    return Session(group, deployment, infos, options, replan, adapting=adapting, standby=spare)
