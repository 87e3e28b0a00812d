"""Options of Zenoh's sockets."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from partita.fabric.socket_options import give_up_connecting, settle_sockets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's own options")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected TCP sockets."""
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as server:
        near = stack.enter_context(socket.create_connection(server.getsockname()))
        far, _ = server.accept()
        yield near, stack.enter_context(far)


def linger_of(link: socket.socket) -> tuple[int, int]:
    """Whether it lingers, and for how many seconds."""
    on, seconds = struct.unpack("ii", link.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
    return on, seconds


def test_what_lingers_as_zenoh_s_sockets_do_is_settled_once(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """Closing does not block then, and a dead peer breaks the connection; others stay as set."""
    near, far = pair
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 10))
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 7))
    assert settle_sockets(4.0) == 1
    assert linger_of(near)[0] == 0
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 4000
    assert linger_of(far) == (1, 7)
    assert settle_sockets(4.0) == 0


def test_looking_at_descriptors_leaves_none_open() -> None:
    """It is done twice a second for as long as a worker runs."""
    with socket.socket() as before:
        first = before.fileno()
    for _ in range(10):
        settle_sockets(4.0)
    with socket.socket() as after:
        assert after.fileno() == first


def test_a_connection_to_nobody_is_given_up_where_closing_would_wait_for_it() -> None:
    """A full queue of a server that accepts none stands for a host that is gone."""
    failed = threading.Event()

    def connect(address: tuple[str, int]) -> None:
        with socket.socket() as link, contextlib.suppress(OSError):
            link.settimeout(20)
            link.connect(address)
        failed.set()

    with socket.socket() as server, ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        address = server.getsockname()
        queued = [stack.enter_context(socket.socket()) for _ in range(3)]
        for link in queued:
            link.setblocking(False)
            link.connect_ex(address)
        thread = threading.Thread(target=connect, args=(address,))
        thread.start()
        with give_up_connecting():
            assert failed.wait(5)
        thread.join()


def test_a_connection_on_which_nothing_is_said_is_given_up_and_those_in_use_are_not() -> None:
    """A process that is frozen takes connections: its system does. Others' sockets stay, too."""
    lingers, settled = struct.pack("ii", 1, 10), 4321
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as server:

        def connect() -> tuple[socket.socket, socket.socket]:
            near = stack.enter_context(socket.create_connection(server.getsockname()))
            far = stack.enter_context(server.accept()[0])
            far.settimeout(20)
            return near, far

        (fresh, fresh_far), (used, used_far), (others, others_far) = [connect() for _ in range(3)]
        for link in (fresh, used):
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingers)
        settle_sockets(settled / 1000)  # as a session does again and again
        late, late_far = connect()
        late.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingers)
        ports = frozenset((used.getsockname()[1], used.getpeername()[1]))
        with give_up_connecting(lambda: {ports}):
            assert fresh_far.recv(1) == b""
            assert late_far.recv(1) == b""
        for link, far in ((used, used_far), (others, others_far)):
            link.sendall(b"1")
            assert far.recv(1) == b"1"
