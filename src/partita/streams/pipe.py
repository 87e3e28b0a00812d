"""A pipe that is read in parts: what was looked at is read again, and nobody waits for ever."""

from __future__ import annotations

import os
import select
from threading import Event

#: Seconds after which a reader that waits sees that nothing more is wanted. Not tuned.
_LOOK_S = 0.2


class Pipe:
    """A file of the system, read without a buffer of Python's, whose lock would outlive a thread.

    Args:
        file: Its number; it stays open.
        stop: Set when no more is wanted: the pipe then ends.
    """

    def __init__(self, file: int, stop: Event) -> None:
        self._file = file
        self._stop = stop
        self._ahead = b""
        self.is_empty = True
        self._poll = select.poll()  # unlike select, for numbers beyond 1023, too
        self._poll.register(file, select.POLLIN)

    def read(self, size: int = 65536, /) -> bytes:
        """At most so many bytes, as many as are there; none at the end."""
        if self._ahead:
            part, self._ahead = self._ahead[:size], self._ahead[size:]
            return part
        while not self._stop.is_set():
            if self._poll.poll(1000 * _LOOK_S):
                part = os.read(self._file, size)
                self.is_empty = self.is_empty and not part
                return part
        return b""

    def read_all(self, size: int) -> bytes:
        """So many bytes; fewer where the pipe ends before."""
        parts = bytearray()
        while len(parts) < size and (part := self.read(size - len(parts))):
            parts += part
        return bytes(parts)

    def peek(self, size: int) -> bytes:
        """The next bytes, which are still to be read; fewer where the pipe ends before."""
        whole = self.read_all(max(size, len(self._ahead)))
        self._ahead = whole
        return whole[:size]
