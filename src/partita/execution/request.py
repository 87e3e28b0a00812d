"""An open request on one device, and the waits of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from partita.execution.events import Route
from partita.execution.tables import RouteTable, StepTable
from partita.program import Load, Receive, Send

WAITING, QUEUED, RUNNING, DONE = range(4)
#: Why a step that was started is not done.
RUNNING_REASON = "is running"


class OpenRequest:
    """A device's state of one request.

    Attributes:
        missing: Per step, buffers that it still waits for.
        uses: Per buffer, readers that are not done.
        status: Per step, one of WAITING, QUEUED, RUNNING, DONE.
        left: Steps that are not done.
    """

    __slots__ = ("left", "missing", "route", "status", "table", "uses")

    def __init__(self, route: Route, table: RouteTable) -> None:
        self.route = route
        self.table = table
        self.missing = table.missing.copy()
        self.uses = table.uses.copy()
        self.status = bytearray(len(table.active))
        self.left = table.count


class Wait(NamedTuple):
    """One unfinished step of one request, and why it is not done; ``reason`` is for people."""

    step: int
    request: int
    label: str
    reason: str


def list_waits(table: StepTable, number: int, request: OpenRequest) -> Iterator[Wait]:
    """Yield the unfinished steps of a request in program order."""
    for index, step in enumerate(table.steps):
        is_part = request.table.active[index] and not isinstance(step, Load)
        if is_part and request.status[index] != DONE:
            yield Wait(step.id, number, table.label_of(index), _reason(table, request, index))


def _reason(table: StepTable, request: OpenRequest, index: int) -> str:
    if request.status[index] == RUNNING:
        return RUNNING_REASON
    step = table.steps[index]
    if request.status[index] == QUEUED:
        credit = f" or for a credit of stream {step.stream}" if isinstance(step, Send) else ""
        return f"waits for its turn{credit}"
    if isinstance(step, Receive):
        return f"waits for {table.streams[step.stream].source!r} to send"
    missing = [
        table.buffers[buffer].tensor
        for buffer in request.table.reads[index]
        if request.status[table.writer_of[buffer]] != DONE
    ]
    return "waits for " + (", ".join(map(repr, missing)) if missing else "the inputs")
