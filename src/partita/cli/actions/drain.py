"""Asking the sessions that use a device to go on without it, through its worker."""

from __future__ import annotations

import time
from pathlib import Path

from partita.api import open_endpoint
from partita.cli.access import read_access
from partita.cli.flags import AccessFlags
from partita.cli.output import Reply
from partita.cluster import load_cluster
from partita.errors import ClusterError, RunError
from partita.leader.calls import DRAIN, DRAIN_S, ask_leaders
from partita.leader.worker_group import WorkerGroup
from partita.units import format_seconds
from partita.worker.messages import Drain

#: Seconds that the worker may take to appear.
_WAIT_S = 10.0


def drain_device(device: str, path: Path, flags: AccessFlags) -> Reply:
    """Free a device; the reply says of which leaders.

    Raises:
        ClusterError: The file has no such device, nor an entry for strangers, or no address of it.
        RunError: Its worker is not there, or a session cannot do without it: it goes on as before.
    """
    cluster = load_cluster(path)
    is_stranger = device not in cluster.names and cluster.strangers is not None
    if not is_stranger and not cluster.device(device).address:
        raise ClusterError(
            f"Device {device!r} has no address in {path}: only running workers are drained. Give"
            " it one, as 'partita lab -o' does.",
            subject=device,
        )
    with open_endpoint(cluster, read_access(flags, leads=True), [device]) as endpoint:
        group = WorkerGroup(endpoint, [device])
        group.wait(_WAIT_S)
        group.greet()
        began_s = time.monotonic()
        answers = ask_leaders(endpoint, device, DRAIN, Drain(device), wait_s=DRAIN_S)
        took_s = time.monotonic() - began_s
    if refused := [answer for answer in answers if answer.error]:
        leader, why = refused[0].leader, refused[0].error
        raise RunError(
            f"Leader {leader!r}: {why.removeprefix(f'Device {leader!r}: ')}", device=device
        )
    payload = {"device": device, "leaders": [one.leader for one in answers], "seconds": took_s}
    count = len(answers)
    of = f"{count} session{'s' * (count > 1)} let it go" if count else "no session used it"
    return Reply(payload, [f"Drained:     {device} is free: {of}, in {format_seconds(took_s)}"])
