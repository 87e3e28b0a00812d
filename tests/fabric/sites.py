"""Sites for tests, and endpoints of their members on loopback."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from partita.credentials import Joiner, Site, make_site
from partita.credentials.issue import Period, issue
from partita.fabric import ZenohOptions
from partita.fabric.join import JoinFile, read_join

MEMBERS = (
    Joiner("nano", "worker"),
    Joiner("box", "worker"),
    Joiner("leader", "leader"),
    Joiner("front", "front"),
)


def new_site(folder: Path, cluster: str = "garage") -> Site:
    """A site of two workers, a leader and a front."""
    return make_site(folder, cluster, MEMBERS, 30)


def options_of(site: Site, member: str, **settings: object) -> ZenohOptions:
    """How a member joins; a leader's and a front's endpoint has a name with more in it."""
    path = site.join_file(member)
    join = read_join(path)
    own = member if join.member.role == "worker" else f"{member}-1f"
    network = join.apply(ZenohOptions(own, heartbeat_s=0.2, local_sockets=False), str(path))
    return dataclasses.replace(network, **settings)  # type: ignore[arg-type]


def change(path: Path, **fields: object) -> Path:
    """A join file beside another one, with some fields changed."""
    join = msgspec.structs.replace(msgspec.json.decode(path.read_bytes(), type=JoinFile), **fields)
    changed = path.with_name(f"changed-{path.name}")
    changed.write_bytes(msgspec.json.encode(join))
    return changed


def dated(site: Site, name: str, begins_days: float, ends_days: float) -> Path:
    """A member's join file with a certificate that is valid between two times from now."""
    now = datetime.now(UTC)
    period = Period(now + timedelta(days=begins_days), now + timedelta(days=ends_days))
    member = next(member for member in site.members if member.name == name)
    pair = issue(site.authority, member.subject, (name,), period)
    return change(site.join_file(name), certificate=pair.certificate, key=pair.key)
