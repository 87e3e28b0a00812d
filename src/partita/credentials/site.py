"""The folder of a site: its authority, who is in and who is out, and a join file for each."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from partita.credentials.issue import (
    AUTHORITY_DAYS,
    Pair,
    Period,
    find_hosts,
    from_now,
    issue,
    make_authority,
    read_period,
)
from partita.errors import ClusterError
from partita.fabric.join import JoinFile
from partita.fabric.members import Member, Role, find_faults
from partita.files import read_regular, write_folder

SITE = "site.json"
_AUTHORITY, _AUTHORITY_KEY = "authority.pem", "authority.key"
#: Of a subject, beside the name: who is let in again is not who was revoked.
_TAG_BYTES = 4
_MOST_NAME = 64 - 2 * _TAG_BYTES - 1


class Joiner(NamedTuple):
    """One that is to be let in; see :class:`partita.fabric.members.Member`."""

    name: str
    role: Role
    address: str = ""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``site.json`` holds."""

    partita_site: Literal[1]
    cluster: str
    days: Annotated[int, msgspec.Meta(ge=1, le=AUTHORITY_DAYS)]
    members: tuple[Member, ...]
    revoked: tuple[Member, ...] = ()


@dataclass(frozen=True)
class Site:
    """A site as it lies in its folder.

    Attributes:
        days: How long certificates are valid from when they are made.
        revoked: Those who were members.
        authority: Signs.
    """

    folder: Path
    cluster: str
    days: int
    members: tuple[Member, ...]
    revoked: tuple[Member, ...]
    authority: Pair

    def join_file(self, name: str) -> Path:
        """Where the join file of a member is."""
        return self.folder / f"{name}.join"


def make_site(folder: Path, cluster: str, joiners: Iterable[Joiner], days: int) -> Site:
    """A new site, all of it or nothing.

    Raises:
        ClusterError: There is one in the folder, or names cannot be used.
        OSError: The folder cannot be written.
    """
    if (folder / SITE).exists():
        raise ClusterError(
            f"Folder '{folder}' is a site already. Let others in with partita keys add, or give"
            " another folder.",
            subject=str(folder),
        )
    authority = make_authority(cluster, from_now(AUTHORITY_DAYS))
    members = tuple(_make_member(joiner) for joiner in joiners)
    return _write(Site(folder, cluster, days, members, (), authority), members)


def load_site(folder: Path) -> Site:
    """The site in a folder.

    Raises:
        ClusterError: There is none, or it is damaged.
    """
    try:
        record = msgspec.json.decode(_read(folder, SITE), type=_Record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(folder, SITE, str(error)) from None
    if faults := find_faults(record.cluster, record.members):
        raise _damaged(folder, SITE, faults[0])
    pems = (_read(folder, name).decode(errors="replace") for name in (_AUTHORITY, _AUTHORITY_KEY))
    authority = Pair(*pems)
    return Site(folder, record.cluster, record.days, record.members, record.revoked, authority)


def add_member(site: Site, joiner: Joiner) -> Site:
    """Let one more in; the others' files say so.

    Raises:
        ClusterError: The name is taken or cannot be used, or the site is damaged.
        OSError: The folder cannot be written.
    """
    if any(member.name == joiner.name for member in site.members):
        raise ClusterError(
            f"Name {joiner.name!r} is taken in site '{site.folder}'. Revoke it first, or renew its"
            " certificate with partita keys rotate.",
            subject=joiner.name,
        )
    member = _make_member(joiner)
    return _write(replace(site, members=(*site.members, member)), (member,))


def revoke_member(site: Site, name: str) -> Site:
    """Let one in no more; its file goes, and the others' files say so.

    Raises:
        ClusterError: There is no such member, or the site is damaged.
        OSError: The folder cannot be written.
    """
    gone = _find(site, name)
    left = tuple(member for member in site.members if member is not gone)
    smaller = _write(replace(site, members=left, revoked=(*site.revoked, gone)), ())
    site.join_file(name).unlink(missing_ok=True)
    return smaller


def renew_members(site: Site, names: Sequence[str]) -> Site:
    """New keys and certificates under the same subjects, for some or, with no names, for all.

    Raises:
        ClusterError: There is no such member, or the site is damaged.
        OSError: The folder cannot be written.
    """
    return _write(site, [_find(site, name) for name in names] or site.members)


def list_periods(site: Site) -> dict[str, Period]:
    """When the certificates in the folder's join files are valid, by name; of those there."""
    pairs = {member.name: _read_pair(site, member) for member in site.members}
    return {name: read_period(pair.certificate) for name, pair in pairs.items() if pair}


def _make_member(joiner: Joiner) -> Member:
    subject = f"{joiner.name[:_MOST_NAME]}.{secrets.token_hex(_TAG_BYTES)}"
    return Member(joiner.name, joiner.role, subject, joiner.address)


def _find(site: Site, name: str) -> Member:
    for member in site.members:
        if member.name == name:
            return member
    known = ", ".join(member.name for member in site.members)
    raise ClusterError(
        f"Nobody in site '{site.folder}' is called {name!r}, there are: {known}.", subject=name
    )


def _write(site: Site, anew: Iterable[Member]) -> Site:
    """Write all files of a site and return it.

    A join file says who all members are, so that each is written. Its credentials stay, but those
    ``anew``, and those of files that were moved elsewhere.

    Raises:
        ClusterError: The members cannot be in one cluster, or the authority is damaged.
    """
    if faults := find_faults(site.cluster, site.members):
        raise ClusterError(f"Site '{site.folder}' cannot be: {faults[0]}.", subject=site.cluster)
    record = _Record(1, site.cluster, site.days, site.members, site.revoked)
    contents = {
        _AUTHORITY: site.authority.certificate.encode(),
        _AUTHORITY_KEY: site.authority.key.encode(),
    }
    fresh, period = set(anew), from_now(site.days)
    for member in site.members:
        pair = None if member in fresh else _read_pair(site, member)
        join = JoinFile(
            1,
            site.cluster,
            member.name,
            site.members,
            site.authority.certificate,
            *(pair or _issue(site, member, period)),
        )
        contents[site.join_file(member.name).name] = _encode(join)
    contents[SITE] = _encode(record)  # last: a folder that has it is whole
    write_folder(site.folder, contents, is_private=True)
    return site


def _issue(site: Site, member: Member, period: Period) -> Pair:
    hosts = find_hosts(member.name, member.address)
    try:
        return issue(site.authority, member.subject, hosts, period)
    except ValueError as error:
        raise _damaged(site.folder, _AUTHORITY_KEY, str(error)) from None


def _encode(struct: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(struct), indent=2) + b"\n"


def _read_pair(site: Site, member: Member) -> Pair | None:
    """The certificate and key in a member's join file; None where it is not there, or damaged."""
    try:
        join = msgspec.json.decode(read_regular(site.join_file(member.name)), type=JoinFile)
        read_period(join.certificate)
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    return Pair(join.certificate, join.key)


def _read(folder: Path, name: str) -> bytes:
    try:
        return read_regular(folder / name)
    except OSError as error:
        raise ClusterError(
            f"Folder '{folder}' is no site: '{name}' cannot be read: {error.strerror}. Make one"
            " with partita keys init, or say where it is with --site.",
            subject=str(folder),
        ) from None


def _damaged(folder: Path, name: str, why: str) -> ClusterError:
    return ClusterError(
        f"File '{folder / name}' cannot be used: {why}. Restore it, or make a new site.",
        subject=str(folder / name),
    )
