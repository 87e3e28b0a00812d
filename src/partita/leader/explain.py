"""The errors that end a run, with the device, step and request to name."""

from __future__ import annotations

from partita.errors import PartitaError, RunError
from partita.execution.request import RUNNING_REASON
from partita.fabric import Failure
from partita.leader.deployment import Deployment
from partita.leader.losses import REVOKED, Lost
from partita.leader.requests import Request
from partita.leader.worker_group import WorkerGroup
from partita.program import Compute, Program, Receive, Send
from partita.worker.messages import Waiting

#: Part of the 3 s within which a loss is to be reported: workers that hang are not waited for.
_STATS_TIMEOUT_S = 0.4


def explain_failure(failure: Failure, request: Request | None) -> RunError:
    """The error for a step that failed on a worker."""
    number = request.index if request is not None else None
    of_request = f" of request {number}" if number is not None else ""
    cause = failure.message.rstrip(".")
    return RunError(
        f"Device {failure.device!r} failed in step {failure.step!r}{of_request}: {cause}.",
        device=failure.device,
        step=failure.step,
        request=number,
    )


def explain_lost(
    group: WorkerGroup, deployment: Deployment, request: Request | None, loss: tuple[str, str]
) -> RunError:
    """The error for a lost device.

    Args:
        group: The remaining workers, which are asked for their waits.
        deployment: The epoch that ran.
        request: The oldest request without an answer.
        loss: The lost device, and the sign of it.
    """
    device, why = loss
    if request is None:
        return RunError(
            f"Device {device!r} is lost: {why}. No request was under way.", device=device
        )
    step = _missing_step(group, deployment, request, device)
    advice = "Plan without it." if why == REVOKED else "Restart its worker and run again."
    return RunError(
        f"Device {device!r} is lost: {why}, while step {step!r} of request {request.index} had no "
        f"result. {advice}",
        device=device,
        step=step,
        request=request.index,
    )


def explain_slow(
    group: WorkerGroup, deployment: Deployment, request: Request, waited_s: float
) -> RunError:
    """The error for a request that makes no progress."""
    waits = _waits(group, deployment, request)
    device, wait = next(
        ((name, w) for name, w in waits if w.reason == RUNNING_REASON),
        waits[0] if waits else ("", None),
    )
    step = wait.label if wait is not None else ""
    where = f" on device {device!r} in step {step!r}, which {wait.reason}" if wait else ""
    return RunError(
        f"Request {request.index} made no progress for {waited_s:.1f} s{where}. "
        "Raise the deadline if the step may take that long.",
        device=device,
        step=step,
        request=request.index,
    )


def find_culprit(group: WorkerGroup, deployment: Deployment, request: Request) -> Lost:
    """What a request without progress waits for: the link of a send under way, or a busy device."""
    program = deployment.program
    steps = {step.id: step for part in program.devices for step in part.steps}
    targets = {stream.id: stream.target for stream in program.streams}
    busy = [
        (name, steps.get(wait.step))
        for name, wait in _waits(group, deployment, request)
        if wait.reason == RUNNING_REASON
    ]
    for name, step in busy:
        if isinstance(step, Send):
            return Lost.link(name, targets[step.stream])
    computing = [name for name, step in busy if isinstance(step, Compute)]
    return Lost(tuple(computing[:1]))


def _waits(
    group: WorkerGroup, deployment: Deployment, request: Request
) -> list[tuple[str, Waiting]]:
    """The unfinished steps of a request, of each device that answers."""

    def ask(name: str) -> tuple[Waiting, ...]:
        try:
            return deployment.stats(name, _STATS_TIMEOUT_S).waiting
        except RunError:
            return ()  # it hangs or is gone, too

    waits = group.each(ask)
    return [(name, w) for name, ws in waits.items() for w in ws if w.request == request.number]


def _missing_step(group: WorkerGroup, deployment: Deployment, request: Request, device: str) -> str:
    """The label of the lost device's step that others wait for, or of its first one."""
    program = deployment.program
    expected = _steps_by_stream(program, device)
    steps = {step.id: step for part in program.devices for step in part.steps}
    for _, wait in _waits(group, deployment, request):
        step = steps.get(wait.step)
        if isinstance(step, Receive) and step.stream in expected:
            return expected[step.stream]
    own = [s.label for s in program.device(device).steps if isinstance(s, Compute)]
    return own[0] if own else "feed"


def _steps_by_stream(program: Program, device: str) -> dict[int, str]:
    """Per stream that begins on ``device``, the label of the step that computes its piece."""
    steps = program.device(device).steps
    writers = {buffer: s.label for s in steps if isinstance(s, Compute) for buffer in s.writes}
    return {s.stream: writers.get(s.read, "send") for s in steps if isinstance(s, Send)}


def shorten_cause(error: PartitaError) -> str:
    """What happened, without what was under way and what to do about it."""
    return error.message.partition(", while ")[0].partition(". ")[0].rstrip(".")
