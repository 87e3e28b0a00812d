"""One client's connection: heads that come soon and are small, bodies that are read whole."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Longest wait for the head of a request, and for the first one after connecting: who sends a byte
#: now and then, or none, holds a connection for no longer.
_HEAD_S = 60.0
#: Of a head: tensors are named in bodies.
_MOST_HEAD_BYTES = 2**16
#: Bodies up to this are held until they are whole: a picture, and more, as numbers. Not tuned.
_WHOLE_BYTES = 2**22


class Connection(HttpToolsProtocol):
    """HTTP in the parts that Uvicorn leaves to its users, or to a proxy before it."""

    _head_ends: asyncio.TimerHandle | None = None
    _head_bytes = _heads = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come; a head that grows and grows ends the connection."""
        before = None if self._head_ends is None else self._heads
        super().data_received(data)
        if self._head_ends is None or self._heads != before:
            return  # it was no head, or not one alone
        self._head_bytes += len(data)
        if self._head_bytes > _MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head is too large; allowed: {_MOST_HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        """Wait for the rest of a head."""
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self._heads += 1
        self._end_head()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part; the application is woken when the last is there, not to copy each again."""
        if self.cycle.response_complete or len(self.cycle.body) + len(body) > _WHOLE_BYTES:
            super().on_body(body)
        else:
            self.cycle.body += body

    def _await_head(self) -> None:
        self._end_head()
        self._head_bytes = 0
        self._head_ends = self.loop.call_later(_HEAD_S, self.timeout_keep_alive_handler)

    def _end_head(self) -> None:
        if self._head_ends is not None:
            self._head_ends.cancel()
            self._head_ends = None
