"""Sockets of Zenoh that need what its configuration does not reach.

Zenoh lets each TCP socket linger: closing one with unsent data blocks for ten seconds. It closes on
its few runtime threads, so that a peer whose cable was pulled silences the links to all others.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import stat
import struct
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial

#: Of the two ends of a connection: how addresses are written differs.
Ports = frozenset[int]
#: What Zenoh 1 sets, and by what its sockets are known: on, for so many seconds.
_ZENOH_LINGER = struct.pack("ii", 1, 10)
#: TCP_USER_TIMEOUT of Linux.
_USER_TIMEOUT = 18
#: TCP_INFO, whose first byte is the connection's state, and the state of one that is being made.
_INFO, _CONNECTING = 11, 2
#: Interval at which connecting is given up; closing takes a few milliseconds where all is well.
_GIVE_UP_S = 0.1
#: After so many intervals all that closes in order has; what is left waits for who says nothing.
_ORDERLY = 3
_OFF = struct.pack("ii", 0, 0)
#: Timeouts that were set here, in milliseconds: by these settled sockets are known.
_settled_ms: set[int] = set()


def settle_sockets(user_timeout_s: float) -> int:
    """Let the kernel close Zenoh's sockets in its own time, and give up what is not acknowledged.

    Other sockets of the process are left alone. Call it again when connections may have come.
    Linux only: elsewhere nothing is changed.

    Args:
        user_timeout_s: A connection whose data is unacknowledged for so long is broken.

    Returns:
        The number of sockets that were changed.
    """

    timeout_ms = int(user_timeout_s * 1000)
    _settled_ms.add(timeout_ms)

    def settle(link: socket.socket) -> bool:
        if not _lingers(link):
            return False
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _OFF)
        link.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, timeout_ms)
        return True

    return _each_socket(settle)


@contextlib.contextmanager
def give_up_connecting(list_used: Callable[[], Collection[Ports]] = list) -> Iterator[None]:
    """Within the context, break all connections of the process that are being made, if it lasts.

    If it lasts longer, also those of Zenoh that are made and that nobody uses: a process that is
    frozen takes connections, as its system does that for it, and says nothing on them.

    Args:
        list_used: Says which of Zenoh's connections are in use, and stay.
    """
    over = threading.Event()

    def give_up(link: socket.socket) -> bool:
        is_connecting = link.getsockopt(socket.IPPROTO_TCP, _INFO, 1)[0] == _CONNECTING
        if is_connecting:
            link.shutdown(socket.SHUT_RDWR)
        return is_connecting

    def repeat() -> None:
        for turn in itertools.count(1):
            if over.wait(_GIVE_UP_S):
                return
            _each_socket(give_up)
            if turn > _ORDERLY:
                _each_socket(partial(_shut_down_unused, list_used()))

    thread = threading.Thread(target=repeat, name="partita-give-up", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _lingers(link: socket.socket) -> bool:
    return link.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == _ZENOH_LINGER


def _shut_down_unused(used: Collection[Ports], link: socket.socket) -> bool:
    """End a connection of Zenoh that is none of those in use."""
    is_settled = link.getsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT) in _settled_ms
    ports = frozenset((link.getsockname()[1], link.getpeername()[1]))
    if ports in used or not (is_settled or _lingers(link)):
        return False
    link.shutdown(socket.SHUT_RDWR)
    return True


def _each_socket(call: Callable[[socket.socket], bool]) -> int:
    """Call with each socket of the process that may be one of TCP; how often that was true."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return 0
    return sum(_call_with(number, call) for number in numbers)


def _call_with(number: int, call: Callable[[socket.socket], bool]) -> bool:
    with contextlib.suppress(OSError):  # closed meanwhile, or none of TCP
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return False
        # Options belong to the socket, not to the descriptor: a copy reaches it, and stays valid.
        with socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as copy:
            return call(copy)
    return False
