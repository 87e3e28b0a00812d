"""The file with which one member joins: its credentials, and who the others are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from partita.errors import ClusterError
from partita.fabric.certificates import TlsOptions, broken_join, check_credentials
from partita.fabric.members import ROUTER, Member, find_faults
from partita.fabric.zenoh_options import ZenohOptions
from partita.files import read_regular

#: A thousand members, and certificates several times as long as ours.
_MOST_BYTES = 2**20


class JoinFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that one member needs.

    Attributes:
        partita_join: Version of the format.
        name: Whose file it is, among ``members``.
        authority, certificate, key: Text in PEM format.
    """

    partita_join: Literal[1]
    cluster: str
    name: str
    members: Annotated[tuple[Member, ...], msgspec.Meta(min_length=1, max_length=1000)]
    authority: str
    certificate: str
    key: str

    @property
    def member(self) -> Member:
        """Whose file it is."""
        return next(member for member in self.members if member.name == self.name)

    @property
    def others(self) -> tuple[str, ...]:
        """The addresses of the other members."""
        return tuple(m.address for m in self.members if m.address and m.name != self.name)

    @property
    def routers(self) -> tuple[str, ...]:
        """The addresses of routers, this one's apart."""
        return tuple(m.address for m in self.members if m.role == ROUTER and m.name != self.name)

    def tls(self, origin: str) -> TlsOptions:
        """The credentials; ``origin`` is the file's name, for messages.

        Hosts' names are not checked: rules bind each certificate to its owner, wherever it is.
        """
        return TlsOptions(
            self.authority, self.certificate, self.key, verify_name=False, origin=origin
        )

    def apply(self, network: ZenohOptions, origin: str) -> ZenohOptions:
        """``network`` as this file's owner joins it, with the rules for all members."""
        return replace(
            network,
            cluster=self.cluster,
            role=self.member.role,
            members=self.members,
            tls=self.tls(origin),
        )


def read_join(path: Path) -> JoinFile:
    """The join file at a path, whose credentials can work.

    Raises:
        ClusterError: It cannot be read, is no join file, contradicts itself, or holds credentials
            that are out of date or not its owner's.
    """
    try:
        data = read_regular(path)
    except OSError as error:
        raise ClusterError(
            f"Join file '{path}' cannot be read: {error.strerror}. Give the file that partita keys"
            " made for this host.",
            subject=str(path),
        ) from None
    return decode_join(data, str(path))


def decode_join(data: bytes, origin: str) -> JoinFile:
    """The join file in ``data``; see :func:`read_join`."""
    try:
        if len(data) > _MOST_BYTES:
            why = f"it has {len(data)} bytes, at most {_MOST_BYTES} are allowed"
            raise broken_join(origin, why)
        join = msgspec.json.decode(data, type=JoinFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise broken_join(origin, str(error)) from None
    if faults := find_faults(join.cluster, join.members):
        raise broken_join(origin, faults[0])
    if all(member.name != join.name for member in join.members):
        raise broken_join(origin, f"its owner {join.name!r} is not among its members")
    common_name = check_credentials(join.tls(origin))
    if common_name != join.member.subject:
        raise broken_join(
            origin,
            f"its certificate is of {common_name!r}, its owner {join.name!r} is"
            f" {join.member.subject!r}",
        )
    return join
