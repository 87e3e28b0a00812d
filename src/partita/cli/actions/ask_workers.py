"""What a cluster's workers say of themselves, and why those that are not ready are not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from partita.api import find_addresses, find_outsiders, find_way, open_endpoint
from partita.cli.access import read_access
from partita.cli.actions.doctor import (
    EMULATED,
    NAMESAKES,
    NO_MEMBER,
    OTHER_ADDRESS,
    OTHER_VERSION,
    READY,
    Asked,
)
from partita.cli.flags import AccessFlags
from partita.cluster import Cluster, load_cluster
from partita.errors import NamesakeError, RunError, first_line
from partita.fabric.absence import SILENT, Absence, find_absences
from partita.fabric.members import LEADER, ROUTER
from partita.fabric.zenoh_control import WHERE
from partita.host import time_of_day_s
from partita.leader.links import time_flows
from partita.leader.worker_group import WorkerGroup
from partita.units import format_bytes, format_seconds
from partita.version import VERSION
from partita.worker.messages import (
    PROTOCOL_VERSION,
    Clock,
    Hello,
    Info,
    MessageFlow,
    OfEpoch,
    check_version,
    decode_message,
)

#: Seconds that workers may take to appear.
_WAIT_S = 5.0
#: For workers that are not at their addresses: the others tell of them at once, if they do.
_ELSEWHERE_S = 1.0
_LOOK_S = 0.05
_PATIENCE_S = 2.0
#: The first trip finds the way.
_TRIPS = 3
#: Workers that were not told of each other take up to five to meet.
_LINK_S = 10.0
#: Nobody signs certificates so shortly before they are used.
_CLOCK_S = 60.0
_MINE = (VERSION, PROTOCOL_VERSION)


class _Announced(msgspec.Struct, frozen=True):
    """What the announcements of all versions have in common."""

    version: str
    protocol: int


def ask_workers(path: Path, flags: AccessFlags) -> Asked:
    """Name, state and engines of each worker of a cluster; for those that are not ready, why.

    Each address is tried by itself: workers that know each other are seen, wherever they are.
    """
    access = read_access(flags)
    cluster = load_cluster(path)
    told = find_addresses(cluster, access)
    outsiders = find_outsiders(cluster, access)
    members = [name for name in cluster.names if name not in outsiders]
    addresses = {name: told[name] for name in members if name in told}
    way = find_way(cluster, access)
    if way is None or (not addresses and access.join is None):
        return Asked([{"name": name, "state": EMULATED} for name in cluster.names])
    with open_endpoint(cluster, access, ()) as endpoint:
        absent = find_absences(addresses, cluster.name, way.tls)
        since_s = time.monotonic()
        while unseen := set(members) - endpoint.peers():
            wait_s = _WAIT_S if unseen - absent.keys() else _ELSEWHERE_S
            if time.monotonic() - since_s > wait_s:
                break
            time.sleep(_LOOK_S)
        group = WorkerGroup(endpoint, [name for name in members if name in endpoint.peers()])
        if any(member.role == ROUTER for member in way.members):
            reached = [name for name in group.names if _is_at(group, name, addresses.get(name))]
            absent = {name: why for name, why in absent.items() if name not in reached}
        present = group.each(lambda name: _greet(group, name, absent.get(name)))
        ready = [name for name in group.names if present[name]["state"] == READY]
        links = _try_links(group, cluster, ready) if way.role == LEADER else None
    missing = {
        name: _describe_absence(absent.get(name), has_address=name in addresses) for name in members
    } | {name: {"state": NO_MEMBER, "why": why} for name, why in outsiders.items()}
    workers = [{"name": name, **(missing | present)[name]} for name in cluster.names]
    return Asked(workers, links)


def _try_links(group: WorkerGroup, cluster: Cluster, ready: list[str]) -> list[dict[str, Any]]:
    """A round trip on each link between workers that are ready; all pairs where none are told."""

    def try_from(source: str) -> list[dict[str, Any]]:
        targets = [
            name
            for name in ready
            if name != source and (not cluster.links or cluster.link(source, name) is not None)
        ]
        return [{"from": source, "to": name, **_time_link(group, source, name)} for name in targets]

    tried = group.each(try_from, ready)
    return [link for name in ready for link in tried[name]]


def _time_link(group: WorkerGroup, source: str, target: str) -> dict[str, Any]:
    try:
        flow = MessageFlow(target, 0, _TRIPS)
        ((*taken_s,),) = time_flows(group.endpoint, source, flow, timeout_s=_LINK_S)
    except RunError as error:
        ends = f"{source!r} does not reach {target!r}, though this machine reaches both"
        return {"why": f"{ends}: look at the network between them ({first_line(error)})"}
    return {"round_trip_s": min(taken_s)}


def _describe_absence(absence: Absence | None, *, has_address: bool) -> dict[str, Any]:
    """What is said of a worker that is not seen in the cluster."""
    if absence is None:
        at_address = "it is at its address, but does not answer; look at its log"
        nowhere = "the file has no address, and multicast does not find it"
        return {"state": SILENT, "why": at_address if has_address else nowhere}
    return {key: value for key, value in absence._asdict().items() if value}


def _is_at(group: WorkerGroup, name: str, address: str | None) -> bool:
    """Whether a worker that is seen, maybe through a router, says that it is where files say."""
    try:
        where = group.endpoint.call(name, WHERE, b"", _PATIENCE_S).decode()
    except RunError:
        return False
    return address in where.partition(" on host ")[0].split(", ")


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
        start_s = time_of_day_s()
        clock = group.ask(name, "clock", OfEpoch(0), Clock)
    except RunError as error:
        return {"state": SILENT, "why": error.message}
    here_s = (start_s + time_of_day_s()) / 2
    # Earlier builds of this version tell neither time nor disk.
    ahead_s = clock.time_of_day_s - here_s if clock.time_of_day_s else None
    return {
        "state": READY,
        "version": info.version,
        "providers": list(info.providers),
        "store_bytes": info.disk.used_bytes,
        "quota_bytes": info.disk.quota_bytes,
        "disk_free_bytes": info.disk.free_bytes,
        "clock_ahead_s": ahead_s,
        "warnings": list_warnings(info, ahead_s),
    }


def list_warnings(info: Info, ahead_s: float | None) -> list[str]:
    """What is not wrong yet with a worker that is ready.

    Args:
        ahead_s: What its clock is ahead of this machine's; None where nobody knows.
    """
    warnings: list[str] = []
    disk = info.disk
    if info.version != VERSION:
        warnings.append(
            f"another version than this machine's {VERSION}, of the same protocol: both work"
            " together"
        )
    if (wanted := disk.quota_bytes - disk.used_bytes) > disk.free_bytes:
        warnings.append(
            f"its disk has {format_bytes(disk.free_bytes)} left, its store may want"
            f" {format_bytes(wanted)} more: make room, or lower --quota"
        )
    if ahead_s is not None and abs(ahead_s) > _CLOCK_S:
        direction = "ahead of" if ahead_s > 0 else "behind"
        warnings.append(
            f"its clock is {format_seconds(abs(ahead_s))} {direction} this machine's: certificates"
            " may be taken for expired, or not valid yet"
        )
    return warnings
