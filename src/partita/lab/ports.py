"""Free addresses on loopback."""

from __future__ import annotations

import contextlib
import socket

from partita.errors import RunError

_ATTEMPTS = 200


def free_addresses(count: int) -> list[str]:
    """``count`` loopback addresses whose port and the port above (for control) are free.

    Raises:
        RunError: There are not that many.
    """
    addresses: list[str] = []
    with contextlib.ExitStack() as held:
        for _ in range(_ATTEMPTS):
            if len(addresses) == count:
                return addresses
            pair = [held.enter_context(socket.socket()) for _ in range(2)]
            pair[0].bind(("127.0.0.1", 0))
            port = pair[0].getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                pair[1].bind(("127.0.0.1", port + 1))
                addresses.append(f"tcp/127.0.0.1:{port}")
    raise RunError(f"No free ports on loopback for {count} workers; end other programs first.")
