"""Making and changing a site."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from partita.cli.output import Reply
from partita.cluster import load_cluster
from partita.credentials import (
    Joiner,
    Site,
    add_member,
    list_periods,
    load_site,
    make_site,
    renew_members,
    revoke_member,
)
from partita.errors import InputError
from partita.fabric.members import ROUTER, Member, Role, secure_address
from partita.report import draw_table
from partita.report.tables import TableData

#: Who is let in beside the devices.
_OTHERS = (Joiner("leader", "leader"), Joiner("front", "front"))


def init(folder: Path, cluster: Path, days: int) -> Reply:
    """Make a site for a cluster's devices, a leader and a front.

    Raises:
        ClusterError: The cluster file is wrong, its names cannot be used, or the site is there.
    """
    described = load_cluster(cluster)
    devices = [
        Joiner(device.name, "worker", secure_address(device.address or ""))
        for device in described.devices
    ]
    site = make_site(folder, described.name, [*devices, *_OTHERS], days)
    return _describe_files(site, f"Site {described.name} made in {folder}.", site.members)


def add(folder: Path, name: str, role: str, address: str) -> Reply:
    """Let one more in.

    Raises:
        InputError: There is no such role, or a router has no address.
        ClusterError: The name is taken or cannot be used, or the site is damaged.
    """
    roles: dict[str, Role] = {each: each for each in get_args(Role)}
    if role not in roles:
        raise InputError(f"--role is '{role}', allowed: {', '.join(roles)}.", subject="--role")
    if role == ROUTER and not address:
        raise InputError("--address is missing: a router is met where it listens.", subject=name)
    site = add_member(load_site(folder), Joiner(name, roles[role], secure_address(address)))
    return _describe_files(site, f"{name} is let in as a {role}.", site.members)


def revoke(folder: Path, name: str) -> Reply:
    """Let one in no more.

    Raises:
        ClusterError: There is no such member, or the site is damaged.
    """
    site = revoke_member(load_site(folder), name)
    told = f"{name} is let in no more by whoever has the new files; {name}.join is gone."
    return _describe_files(site, told, site.members)


def rotate(folder: Path, names: Sequence[str]) -> Reply:
    """Make new keys and certificates.

    Raises:
        ClusterError: There is no such member, or the site is damaged.
    """
    site = renew_members(load_site(folder), names)
    renewed = [member for member in site.members if not names or member.name in names]
    told = f"Keys of {', '.join(member.name for member in renewed)} are new."
    return _describe_files(site, told, renewed)


def show(folder: Path) -> Reply:
    """Who is in, and who is in no more.

    Raises:
        ClusterError: There is no site, or it is damaged.
    """
    site = load_site(folder)
    periods, now = list_periods(site), datetime.now(UTC)
    found: list[dict[str, Any]] = []
    for member in site.members:
        period = periods.get(member.name)
        state = "in" if period is None or period.end > now else "expired"
        until = None if period is None else f"{period.end:%Y-%m-%d}"
        found.append(_describe(member.name, member.role, member.address, state, until))
    found += [_describe(m.name, m.role, m.address, "revoked", None) for m in site.revoked]
    rows = tuple(tuple(str(value or "–") for value in each.values()) for each in found)
    columns = ("name", "role", "address", "state", "until")
    table = draw_table(TableData(f"Site {site.cluster}", columns, rows, text_columns=5))
    return Reply({"cluster": site.cluster, "folder": str(folder), "members": found}, [table])


def _describe(
    name: str, role: str, address: str, state: str, until: str | None
) -> dict[str, str | None]:
    return {"name": name, "role": role, "address": address, "state": state, "until": until}


def _describe_files(site: Site, told: str, members: Sequence[Member]) -> Reply:
    """What was written, and what to do with it."""
    files = {member.name: str(site.join_file(member.name)) for member in members}
    uses: dict[Role, str] = {
        "worker": "to its host: partita worker",
        "leader": "where plans are run: partita run PLAN",
        "front": "where it is asked: partita doctor --cluster FILE",
        "router": "where sites meet: partita router",
    }
    lines = [f"  {files[m.name]}: {uses[m.role]} --join {m.name}.join" for m in members]
    note = "Copy each file to its host, over a channel that you trust; it holds a private key."
    payload = {"cluster": site.cluster, "folder": str(site.folder), "files": files}
    return Reply(payload, [told, *lines, note])
