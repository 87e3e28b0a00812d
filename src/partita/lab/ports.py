"""Free addresses on loopback."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import socket
from collections.abc import Iterator

from partita.errors import RunError

# Below what systems give to connections (Linux: from 32768, others from 49152), so that no
# program's connection takes a port between its choice and its worker's start. Each process begins
# somewhere else and goes on from there: two that choose at once seldom meet.
_PORTS = range(10_000, 32_768, 2)
_START = secrets.randbelow(len(_PORTS))
_turns = itertools.cycle((*_PORTS[_START:], *_PORTS[:_START]))
_ATTEMPTS = 200


def free_addresses(count: int) -> list[str]:
    """``count`` loopback addresses whose port and the port above (for control) are free.

    Raises:
        RunError: There are not that many.
    """
    with hold_addresses(count) as addresses:
        return addresses


@contextlib.contextmanager
def hold_addresses(count: int) -> Iterator[list[str]]:
    """Addresses as of :func:`free_addresses`, which nobody is given within the context.

    Who is told of one can listen there: it takes the option that all listeners here set. Without
    it another program's connection may be given the port before its worker is there.

    Raises:
        RunError: There are not that many.
    """
    addresses: list[str] = []
    with contextlib.ExitStack() as held:
        for port in itertools.islice(_turns, _ATTEMPTS):
            if len(addresses) == count:
                break
            pair = [held.enter_context(socket.socket()) for _ in range(2)]
            with contextlib.suppress(OSError):
                pair[0].bind(("127.0.0.1", port))
                pair[1].bind(("127.0.0.1", port + 1))
                addresses.append(f"tcp/127.0.0.1:{port}")
            for one in pair:  # after binding: two that hold may not be given one port
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if len(addresses) < count:
            raise RunError(
                f"No free ports on loopback for {count} workers; end other programs first."
            )
        yield addresses
