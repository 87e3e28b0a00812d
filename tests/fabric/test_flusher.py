"""Messages over TLS on a link that takes less than is sent."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from partita.fabric import TlsOptions, ZenohEndpoint, ZenohOptions
from partita.fabric.flusher import FlushSchedule
from partita.fabric.socket_options import _each_socket
from partita.lab.ports import free_addresses
from tests.fabric.certificates import needs_openssl, sign

_MESSAGES, _BYTES = 6, 300_000


def test_writes_become_rarer_until_the_keep_alive_does_as_well() -> None:
    """Each wait is at most an eighth of what has passed, or 5 ms; a new message begins anew."""
    schedule = FlushSchedule(most_s=0.5)
    assert schedule.next_s() is None
    assert schedule.begin("b", 100.0)
    assert schedule.take_due(100.001) == []
    times = []
    while (next_s := schedule.next_s()) is not None:
        assert schedule.take_due(next_s) == ["b"]
        times.append(next_s - 100.0)
    waits = [later - earlier for earlier, later in pairwise(times)]
    most = [1.001 * max(0.005, time_s / 8) for time_s in times]
    assert all(wait <= longest for wait, longest in zip(waits, most, strict=False))
    assert len(times) < 50
    assert 3.5 < times[-1] < 4.5
    assert schedule.begin("b", 200.0)
    schedule.take_due(200.005)
    assert not schedule.begin("b", 201.0)
    assert schedule.take_due(201.004) == []


class SlowLink:
    """Passes on what comes for a port of this host, 16 kB each 2 ms in one direction."""

    def __init__(self, stack: contextlib.ExitStack, listen: int, target: int) -> None:
        self._stack, self._target = stack, target
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", listen))
        server.listen()
        self._server = stack.enter_context(server)
        stack.callback(lambda: server.shutdown(socket.SHUT_RDWR))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                for link in (near, far):
                    self._stack.enter_context(link)
                for ends in ((near, far, 0.002), (far, near, 0.0)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket, pause_s: float) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(16_384):
                target.sendall(data)
                time.sleep(pause_s)


@contextlib.contextmanager
def endpoints_with_slow_links(tls: TlsOptions) -> Iterator[tuple[ZenohEndpoint, ZenohEndpoint]]:
    """Two endpoints; what the first sends is slow, and their keep-alives come each 30 s."""
    port, between = (int(at.rpartition(":")[2]) for at in free_addresses(2))
    common = {"tls": tls, "local_sockets": False, "lease_s": 120.0, "patience_s": 60.0}
    with contextlib.ExitStack() as stack:
        ends = []
        for name, listen, connect in (("b", port, None), ("a", None, between)):
            options = ZenohOptions(
                name,
                listen=(f"tls/127.0.0.1:{listen}",) if listen else (),
                connect=(f"tls/127.0.0.1:{connect}",) if connect else (),
                **common,  # type: ignore[arg-type]
            )
            ends.append(ZenohEndpoint(options))
            stack.callback(ends[-1].close)
            if listen:
                for above in (0, 1):
                    SlowLink(stack, between + above, port + above)
        ends[0].announce(b"")
        ends[1].announce(b"")
        assert ends[1].info("b") == b""
        shrink_buffers((between, between + 1))
        yield ends[1], ends[0]


def shrink_buffers(ports: tuple[int, int]) -> None:
    """Let the sockets of this process that are connected to these ports take 32 kB at once."""

    def shrink(link: socket.socket) -> bool:
        if is_there := link.getpeername()[1] in ports:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)
        return is_there

    assert _each_socket(shrink) == len(ports)


@pytest.mark.slow
@needs_openssl
def test_the_end_of_a_message_does_not_wait_for_a_keep_alive(tmp_path: Path) -> None:
    """Pieces and calls that fill the connection arrive whole without any other traffic."""
    tls = sign(tmp_path, "ours", "both", "IP:127.0.0.1")
    came = threading.Event()
    with endpoints_with_slow_links(tls) as (a, b):
        b.on_data(lambda source, header, payload: came.set())
        b.serve(lambda caller, method, body: b"%d" % len(body))
        payload = bytes(_BYTES)
        for _ in range(_MESSAGES):
            came.clear()
            a.send("b", b"", payload)
            assert came.wait(10)
            assert a.call("b", "put", payload, 10) == b"%d" % _BYTES
