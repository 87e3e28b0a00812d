"""What a cluster's workers say of themselves, and why those that are not ready are not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from partita.api import Access, find_addresses, find_way, open_endpoint
from partita.cli.access import read_access
from partita.cli.actions.doctor import (
    EMULATED,
    NAMESAKES,
    OTHER_ADDRESS,
    OTHER_VERSION,
    READY,
)
from partita.cli.flags import AccessFlags
from partita.cluster import Cluster, load_cluster
from partita.errors import NamesakeError, RunError
from partita.fabric import TlsOptions
from partita.fabric.absence import SILENT, Absence, find_absence
from partita.fabric.zenoh_control import WHERE
from partita.leader.worker_group import WorkerGroup
from partita.version import VERSION
from partita.worker.messages import PROTOCOL_VERSION, Hello, Info, check_version, decode_message

#: Seconds that workers may take to appear.
_WAIT_S = 5.0
#: For workers that are not at their addresses: the others tell of them at once, if they do.
_ELSEWHERE_S = 1.0
_LOOK_S = 0.05
_PATIENCE_S = 2.0
_MINE = (VERSION, PROTOCOL_VERSION)


class _Announced(msgspec.Struct, frozen=True):
    """What the announcements of all versions have in common."""

    version: str
    protocol: int


def ask_workers(path: Path, flags: AccessFlags) -> list[dict[str, Any]]:
    """Name, state and engines of each worker of a cluster; for those that are not ready, why.

    Each address is tried by itself: workers that know each other are seen, wherever they are.
    """
    access = read_access(flags)
    cluster = load_cluster(path)
    addresses = find_addresses(cluster, access)
    if not addresses and access.join is None:
        return [{"name": name, "state": EMULATED} for name in cluster.names]
    with open_endpoint(cluster, access) as endpoint:
        absent = _try_addresses(addresses, cluster.name, _find_tls(cluster, access))
        since_s = time.monotonic()
        while unseen := set(cluster.names) - endpoint.peers():
            wait_s = _WAIT_S if unseen - absent.keys() else _ELSEWHERE_S
            if time.monotonic() - since_s > wait_s:
                break
            time.sleep(_LOOK_S)
        group = WorkerGroup(endpoint, [name for name in cluster.names if name in endpoint.peers()])
        present = group.each(lambda name: _greet(group, name, absent.get(name)))
    missing = {
        name: _describe_absence(absent.get(name), has_address=name in addresses)
        for name in cluster.names
    }
    return [{"name": name, **(missing | present)[name]} for name in cluster.names]


def _find_tls(cluster: Cluster, access: Access) -> TlsOptions | None:
    way = find_way(cluster, access)
    return None if way is None else way.tls


def _try_addresses(
    addresses: Mapping[str, str], cluster: str, tls: TlsOptions | None
) -> dict[str, Absence]:
    """Why workers are not at their addresses, all tried at the same time."""
    if not addresses:
        return {}
    with ThreadPoolExecutor(len(addresses), "doctor") as pool:
        tried = {
            name: pool.submit(find_absence, address, name, cluster, tls)
            for name, address in addresses.items()
        }
    found = {name: future.result() for name, future in tried.items()}
    return {name: absence for name, absence in found.items() if absence is not None}


def _describe_absence(absence: Absence | None, *, has_address: bool) -> dict[str, Any]:
    """What is said of a worker that is not seen in the cluster."""
    if absence is None:
        at_address = "it is at its address, but does not answer; look at its log"
        nowhere = "the file has no address, and multicast does not find it"
        return {"state": SILENT, "why": at_address if has_address else nowhere}
    return {key: value for key, value in absence._asdict().items() if value}


def _greet(group: WorkerGroup, name: str, absence: Absence | None) -> dict[str, Any]:
    """What a worker says; one that refuses, or is too old to, is no reason to ask no other.

    Args:
        absence: Why it is not at its address, though it is seen.
    """
    try:
        announced = decode_message(group.endpoint.info(name), _Announced)
        if absence is not None:
            where = group.endpoint.call(name, WHERE, b"", _PATIENCE_S).decode()
            return {"state": OTHER_ADDRESS, "why": f"{absence.why}; {name!r} is at {where}"}
    except NamesakeError as error:
        return {"state": NAMESAKES, "why": error.message}
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
