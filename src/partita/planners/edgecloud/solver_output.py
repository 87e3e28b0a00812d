"""What a solver prints, whatever it was told, kept off standard output: that is for answers alone.

HiGHS 1.12 has a line that no option silences. It is a library of C++, which knows nothing of
Python's streams, so that the file descriptor is what is watched.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from tempfile import TemporaryFile
from threading import Lock

_STDOUT = 1
#: The descriptor is one for all threads.
_LOCK = Lock()


@contextmanager
def without_lines(start: bytes) -> Iterator[None]:
    """Leave out lines that begin so of what is written to standard output meanwhile.

    All else, also of other threads, comes out at the end.
    """
    with _LOCK, TemporaryFile() as kept:
        _flush()
        try:
            output = os.dup(_STDOUT)
        except OSError:  # there is no standard output
            yield
            return
        os.dup2(kept.fileno(), _STDOUT)
        try:
            yield
        finally:
            _flush()
            os.dup2(output, _STDOUT)
            os.close(output)
            kept.seek(0)
            _write(b"".join(line for line in kept if not line.startswith(start)))


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(_STDOUT, data) :]


def _flush() -> None:
    """Write what C's streams hold back."""
    _libc().fflush(None)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
