"""Which device, step and request to name when a run ends."""

from __future__ import annotations

from partita.errors import RunError
from partita.fabric import Failure
from partita.leader.deployment import Deployment
from partita.leader.requests import Asked
from partita.leader.worker_group import WorkerGroup
from partita.program import Compute, Program, Receive, Send
from partita.worker.messages import Waiting

_STATS_TIMEOUT_S = 0.4


def explain_failure(failure: Failure, asked: Asked | None) -> RunError:
    """The error for a step that failed on a worker."""
    number = asked.index if asked is not None else None
    of_request = f" of request {number}" if number is not None else ""
    cause = failure.message.rstrip(".")
    return RunError(
        f"Device {failure.device!r} failed in step {failure.step!r}{of_request}: {cause}.",
        device=failure.device,
        step=failure.step,
        request=number,
    )


def explain_lost(
    crew: WorkerGroup, deployment: Deployment, asked: Asked | None, loss: tuple[str, str]
) -> RunError:
    """The error for a lost device.

    Args:
        crew: Those that are left; they are asked what they wait for.
        deployment: The epoch that ran.
        asked: The oldest request without an answer.
        loss: The lost device, and what was seen of it.
    """
    device, why = loss
    if asked is None:
        return RunError(
            f"Device {device!r} is lost: {why}. No request was under way.", device=device
        )
    step = _missing_step(crew, deployment, asked, device)
    return RunError(
        f"Device {device!r} is lost: {why}, while step {step!r} of request {asked.index} had no "
        "result. Restart its worker and run again.",
        device=device,
        step=step,
        request=asked.index,
    )


def explain_slow(
    crew: WorkerGroup, deployment: Deployment, asked: Asked, waited_s: float
) -> RunError:
    """The error for a request that makes no progress."""
    waits = _waits(crew, deployment, asked)
    device, wait = next(
        ((name, w) for name, w in waits if "running" in w.reason), waits[0] if waits else ("", None)
    )
    step = wait.label if wait is not None else ""
    where = f" on device {device!r} in step {step!r}, which {wait.reason}" if wait else ""
    return RunError(
        f"Request {asked.index} made no progress for {waited_s:.1f} s{where}. "
        "Raise the deadline if the step may take that long.",
        device=device,
        step=step,
        request=asked.index,
    )


def _waits(crew: WorkerGroup, deployment: Deployment, asked: Asked) -> list[tuple[str, Waiting]]:
    """Return what each device that answers waits for in a request."""

    def ask(name: str) -> tuple[Waiting, ...]:
        try:
            return deployment.stats(name, _STATS_TIMEOUT_S).waiting
        except RunError:
            # Who does not answer cannot say what it waits for.
            return ()

    found = crew.each(ask)
    return [(name, w) for name, ws in found.items() for w in ws if w.request == asked.number]


def _missing_step(crew: WorkerGroup, deployment: Deployment, asked: Asked, device: str) -> str:
    """The label of the lost device's step that others wait for, or of its first one."""
    program = deployment.program
    expected = _steps_by_stream(program, device)
    steps = {step.id: step for part in program.devices for step in part.steps}
    for _, wait in _waits(crew, deployment, asked):
        step = steps.get(wait.step)
        if isinstance(step, Receive) and step.stream in expected:
            return expected[step.stream]
    own = [s.label for s in program.device(device).steps if isinstance(s, Compute)]
    return own[0] if own else "feed"


def _steps_by_stream(program: Program, device: str) -> dict[int, str]:
    """Return, per stream that begins on ``device``, the label of the step that makes its piece."""
    steps = program.device(device).steps
    makers = {buffer: s.label for s in steps if isinstance(s, Compute) for buffer in s.writes}
    return {s.stream: makers.get(s.read, "send") for s in steps if isinstance(s, Send)}
