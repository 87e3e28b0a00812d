"""The keys that messages travel under: who sends, and in which role, is part of each.

Access rules (:mod:`partita.fabric.access_rules`) bind that part to the sender's certificate, so
that nothing in a message itself has to say, or can claim, whose it is.
"""

from __future__ import annotations

from typing import NamedTuple


class Keys(NamedTuple):
    """The keys of one cluster; ``"*"`` stands for any name or role.

    >>> Keys("garage").call("nano", "leader", "desk-1f")
    'partita/garage/call/nano/leader/desk-1f'
    """

    cluster: str

    def data(self, target: str, source: str) -> str:
        """Pieces."""
        return f"partita/{self.cluster}/data/{target}/{source}"

    def note(self, target: str, source: str) -> str:
        """Notes."""
        return f"partita/{self.cluster}/note/{target}/{source}"

    def call(self, target: str, role: str, source: str) -> str:
        """Calls, and the answers to them."""
        return f"partita/{self.cluster}/call/{target}/{role}/{source}"

    def alive(self, name: str, incarnation: str) -> str:
        """Tokens of those that are there."""
        return f"partita/{self.cluster}/alive/{name}/{incarnation}"


def read_source(key: object) -> str:
    """The sender in the key of a piece or note."""
    return str(key).rpartition("/")[2]


def read_caller(key: object) -> tuple[str, str]:
    """Role and name in the key of a call."""
    role, source = str(key).split("/")[-2:]
    return role, source
