"""What a cluster's workers say of themselves, and why those that say nothing do not."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from partita.api import open_endpoint
from partita.cli.access import read_access
from partita.cli.actions.doctor import EMULATED, OTHER_VERSION, READY
from partita.cli.flags import AccessFlags
from partita.cluster import Cluster, load_cluster
from partita.errors import RunError
from partita.fabric import TlsOptions
from partita.fabric.absence import SILENT, explain_absence
from partita.leader.worker_group import WorkerGroup
from partita.version import VERSION
from partita.worker.messages import PROTOCOL_VERSION, Hello, Info, check_version, decode_message

#: Seconds that workers may take to appear.
_WAIT_S = 5.0
_LOOK_S = 0.05
_MINE = (VERSION, PROTOCOL_VERSION)


class _Announced(msgspec.Struct, frozen=True):
    """What the announcements of all versions have in common."""

    version: str
    protocol: int


def ask_workers(path: Path, flags: AccessFlags) -> list[dict[str, Any]]:
    """Name, state and engines of each worker of a cluster; for those that are not ready, why."""
    access = read_access(flags)
    cluster = load_cluster(path)
    if not any(device.address for device in cluster.devices):
        return [{"name": name, "state": EMULATED} for name in cluster.names]
    with open_endpoint(cluster, access) as endpoint:
        deadline_s = time.monotonic() + _WAIT_S
        while set(cluster.names) - endpoint.peers() and time.monotonic() < deadline_s:
            time.sleep(_LOOK_S)
        there = [name for name in cluster.names if name in endpoint.peers()]
        group = WorkerGroup(endpoint, there)
        greeted = group.each(lambda name: _greet(group, name))
        explained = _explain(cluster, set(there), access.tls)
    answers = greeted | explained
    return [{"name": name, **answers[name]} for name in cluster.names]


def _greet(group: WorkerGroup, name: str) -> dict[str, Any]:
    """What a worker says; one that refuses, or is too old to, is no reason to ask no other."""
    try:
        announced = decode_message(group.endpoint.info(name), _Announced)
    except RunError as error:
        return {"state": SILENT, "why": error.message}
    try:
        check_version(_MINE, (announced.version, announced.protocol), name)
    except RunError as error:
        return {"state": OTHER_VERSION, "why": error.message, "version": announced.version}
    try:
        info = group.ask(name, "hello", Hello(*_MINE), Info)
    except RunError as error:
        return {"state": SILENT, "why": error.message}
    return {"state": READY, "providers": list(info.providers)}


def _explain(
    cluster: Cluster, there: set[str], tls: TlsOptions | None
) -> dict[str, dict[str, Any]]:
    """Why each of the others is not there, all asked at the same time."""
    missing = {d.name: d.address for d in cluster.devices if d.name not in there}
    if not missing:
        return {}
    with ThreadPoolExecutor(len(missing), "doctor") as pool:
        tried = {
            name: pool.submit(explain_absence, address, name, cluster.name, tls)
            for name, address in missing.items()
            if address
        }
    no_address = {"state": SILENT, "why": "the file has no address, and multicast does not find it"}
    explained: dict[str, dict[str, Any]] = dict.fromkeys(missing, no_address)
    for name, future in tried.items():
        explained[name] = {key: v for key, v in future.result()._asdict().items() if v}
    return explained
