"""A medium that links of several processes share, kept in a file."""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from partita.execution import SharedMedium

_CELL = struct.Struct("<d")


class FileMedium(SharedMedium):
    """A shared medium kept in a file of 8 bytes; use it inside :meth:`hold` only.

    Args:
        path: The file; it is made where it is missing and stays when the processes end. Take a
            new one for each run, because it holds a time.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._lock = threading.Lock()  # file locks do not tell threads of one process apart
        with self.hold():
            if os.fstat(self._file).st_size < _CELL.size:
                os.pwrite(self._file, _CELL.pack(-math.inf), 0)
            self._map = mmap.mmap(self._file, _CELL.size)

    @property
    def free_at_s(self) -> float:
        """When the medium is free again, in seconds on the callers' clock."""
        value: float = _CELL.unpack_from(self._map)[0]
        return value

    @free_at_s.setter
    def free_at_s(self, value: float) -> None:
        _CELL.pack_into(self._map, 0, value)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the other links of the medium out, in this and all other processes."""
        with self._lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Free the file handle; the file stays for the others."""
        self._map.close()
        os.close(self._file)
