"""Free addresses on loopback."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from partita.errors import RunError

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
        for _ in range(_ATTEMPTS):
            if len(addresses) == count:
                break
            pair = [held.enter_context(socket.socket()) for _ in range(2)]
            pair[0].bind(("127.0.0.1", 0))
            port = pair[0].getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                pair[1].bind(("127.0.0.1", port + 1))
                addresses.append(f"tcp/127.0.0.1:{port}")
            for one in pair:  # after binding: two that hold may not be given one port
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if len(addresses) < count:
            raise RunError(
                f"No free ports on loopback for {count} workers; end other programs first."
            )
        yield addresses
