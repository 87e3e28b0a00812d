"""The process that listens: from a bound port to an end that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence

import uvicorn
from starlette.types import ASGIApp

from partita.errors import InputError, first_line
from partita.serve.connection import Connection
from partita.serve.front import Front

#: Connections that the system holds until they are looked at; the system's own limit is lower.
_BACKLOG = 2048
#: Longer than the pools of usual clients keep a connection that is idle.
_KEEP_ALIVE_S = 75
#: For answers on their way once all are there.
_CLOSE_S = 5
_POLL_S = 0.02
#: A waiting main thread looks so often whether all is over; signals wake it at once.
_LOOK_S = 0.5


def listen_at(address: str, flag: str = "--listen") -> socket.socket:
    """A socket that listens at ``HOST:PORT``; port 0 is any that is free.

    Args:
        flag: What gave the address.

    Raises:
        InputError: It is no address, or cannot be listened at.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise InputError(
            f"{flag} '{address}' is no address; allowed: HOST:PORT with a port from 0 to 65535,"
            " such as 127.0.0.1:8000.",
            subject=flag,
        )
    try:
        family, *_, place = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(place, family=family, backlog=_BACKLOG)
        # Connections inherit it. asyncio does not set it itself where the protocol is the default
        # one, and heads and bodies are written apart: 40 ms each, the peer's delayed ACK.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, UnicodeError) as error:
        code = error.errno if isinstance(error, OSError) else None  # of names other codes
        reason = os.strerror(code) if code and code > 0 else first_line(error)
        raise InputError(
            f"Address '{address}' cannot be listened at: {reason}. Give {flag} another one; port"
            " 0 is any that is free.",
            subject=flag,
        ) from error


def place_of(listener: socket.socket) -> str:
    """The address of what listens, with the port that it has."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def url_of(listener: socket.socket) -> str:
    """Where clients find what listens."""
    return f"http://{place_of(listener)}"


def make_server(app: ASGIApp, front: Front, *, grace_s: float) -> Server:
    """What answers at a listening socket with ``run([socket])``, on a thread of its own.

    At its end what was taken is answered, while new requests get 503.

    Args:
        app: Answers for ``front``.
        grace_s: Longest wait for the last answers.
    """
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_CLOSE_S,
        backlog=_BACKLOG,
    )
    return Server(config, front, grace_s)


class Server(uvicorn.Server):
    """Listens on while what was taken is answered; ``should_exit`` begins its end.

    Signals are left to the main thread, which deploys meanwhile: :meth:`answering`,
    :meth:`ended_by_signals` and :meth:`await_end` are for it.
    """

    def __init__(self, config: uvicorn.Config, front: Front, grace_s: float) -> None:
        super().__init__(config)
        self._front, self._grace_s = front, grace_s
        self._is_over = threading.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    @contextlib.contextmanager
    def answering(self, listener: socket.socket) -> Iterator[None]:
        """Answer on a thread until the context ends, and all that was taken is answered."""

        def answer() -> None:
            try:
                self.run([listener])
            finally:
                self._is_over.set()

        thread = threading.Thread(target=answer, name="serve/http", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.should_exit = True
            thread.join()

    @contextlib.contextmanager
    def ended_by_signals(self, numbers: Iterable[signal.Signals]) -> Iterator[None]:
        """Let each of some signals begin the end from now on; a second one hurries it."""
        before = {number: signal.signal(number, self._end) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def await_end(self) -> None:
        """Return once the end has begun and what was taken is answered."""
        while not self._is_over.wait(_LOOK_S):  # in turns: signals are heeded in between
            pass

    def _end(self, number: int, frame: object) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """Answer what was taken, then close all connections."""
        self._front.refuse()
        deadline_s = time.monotonic() + self._grace_s
        while self._front.unanswered and time.monotonic() < deadline_s and not self.force_exit:
            await asyncio.sleep(_POLL_S)
        if self._front.unanswered:  # an error is better than silence
            await asyncio.to_thread(self._front.close)
        await super().shutdown(list(sockets or ()))
