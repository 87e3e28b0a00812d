"""Options of the network's own sockets that Zenoh's configuration does not reach.

Zenoh lets each TCP socket linger: closing one with unsent data blocks for ten seconds. It closes on
its few runtime threads, so that a peer whose cable was pulled silences the links to all others.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct

#: What Zenoh 1 sets, and by what its sockets are known: on, for so many seconds.
_ZENOH_LINGER = struct.pack("ii", 1, 10)
#: TCP_USER_TIMEOUT of Linux.
_USER_TIMEOUT = 18
_OFF = struct.pack("ii", 0, 0)


def settle_sockets(user_timeout_s: float) -> int:
    """Let the kernel close Zenoh's sockets in its own time, and give up what is not acknowledged.

    Other sockets of the process are left alone. Call it again when connections may have come.
    Linux only: elsewhere nothing is changed.

    Args:
        user_timeout_s: A connection whose data is unacknowledged for so long is broken.

    Returns:
        The number of sockets that were changed.
    """
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return 0
    return sum(_settle(number, user_timeout_s) for number in numbers)


def _settle(number: int, user_timeout_s: float) -> bool:
    with contextlib.suppress(OSError):  # closed meanwhile
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return False
        # Options belong to the socket, not to the descriptor: a copy reaches it, and stays valid.
        with socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as copy:
            if copy.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) != _ZENOH_LINGER:
                return False
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _OFF)
            copy.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, int(user_timeout_s * 1000))
            return True
    return False
