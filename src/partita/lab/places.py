"""Where workers run and listen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where one worker runs.

    Attributes:
        address: What it listens on.
        prefix: Command that runs it, such as one that enters a namespace.
        is_private: Whether nobody but this machine reaches the address, although it is no loopback.
    """

    address: str
    prefix: tuple[str, ...] = ()
    is_private: bool = False
