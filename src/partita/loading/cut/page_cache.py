"""Files and the system's page cache: on disk, in memory, or out of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

_CHUNK_BYTES = 2**20


def settle(files: Sequence[Path]) -> None:
    """Write files to disk: the page cache keeps what is not there yet."""
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())


def forget(files: Sequence[Path]) -> None:
    """Let the system drop files from its page cache; they must be settled."""
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_once_s(files: Sequence[Path]) -> float:
    """The seconds to read all bytes of files once, through one small buffer."""
    buffer = bytearray(_CHUNK_BYTES)
    began_s = time.perf_counter()
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return time.perf_counter() - began_s
