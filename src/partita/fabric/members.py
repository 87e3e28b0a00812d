"""Who may join a cluster, and as what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from partita.naming import ADDRESS_RULE, NAME_RULE, SECURE_PROTOCOLS, is_name, parse_address

#: Workers serve, leaders deploy, fronts ask, routers pass on what the others say.
Role = Literal["worker", "leader", "front", "router"]
LEADER: Role = "leader"
ROUTER: Role = "router"


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One that may join.

    Attributes:
        name: The device's; processes of leaders and fronts add to theirs what they draw.
        subject: Common name of its certificate. A part of it is drawn: who is revoked and let in
            again has another one.
        address: Where it listens; empty where it does not, or is found by multicast.
    """

    name: str
    role: Role
    subject: str
    address: str = ""

    @property
    def is_worker(self) -> bool:
        """Whether it serves, under its own name alone."""
        return self.role == "worker"

    def has_name(self, name: str) -> bool:
        """Whether a process of that name is this member's."""
        return name == self.name if self.is_worker else name.startswith(f"{self.name}-")

    @property
    def sources(self) -> str:
        """The names that it may send under, as a part of a key expression."""
        return self.name if self.is_worker else f"{self.name}-$*"


def find_faults(cluster: str, members: Sequence[Member]) -> list[str]:
    """What is said of a cluster's members that contradicts itself or that no network can carry."""
    names = [cluster, *(name for each in members for name in (each.name, each.subject))]
    faults = [
        f"{name!r} is no name, allowed are {NAME_RULE}" for name in names if not is_name(name)
    ]
    for member in members:
        if member.address and not is_secure(member.address):
            faults.append(
                f"{member.name!r} has the address {member.address!r}, allowed is {ADDRESS_RULE},"
                f" with a protocol of {', '.join(SECURE_PROTOCOLS)}"
            )
        faults += [
            f"{member.name!r} and {other.name!r} could be taken for each other: names must differ,"
            " and none may begin with a leader's or a front's and '-'"
            for other in members
            if other is not member and _clash(member, other)
        ]
    return faults


def _clash(member: Member, other: Member) -> bool:
    """Whether ``other`` could be taken for ``member``."""
    is_within = member.role != "worker" and other.name.startswith(f"{member.name}-")
    return member.name == other.name or member.subject == other.subject or is_within


def is_secure(address: str) -> bool:
    """Whether an address is one for credentials."""
    parts = parse_address(address)
    return parts is not None and parts.protocol in SECURE_PROTOCOLS


def secure_address(address: str) -> str:
    """The same address with credentials; what is no address stays as it is.

    >>> secure_address("tcp/192.0.2.7:7447")
    'tls/192.0.2.7:7447'
    """
    parts = parse_address(address)
    if parts is None or parts.protocol in SECURE_PROTOCOLS:
        return address
    return f"tls/{address.partition('/')[2]}"
