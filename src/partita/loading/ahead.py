"""Reading a file of weights ahead of the layers that need them."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

#: What is asked for at a time: the system reads no more than so much of one request at once.
_CHUNK_BYTES = 2**20


class ReadAhead:
    """A thread that asks the system for files' pages, in order, until all are asked for.

    Pages that are in memory cost next to nothing; what is asked for is read while others compute.

    Args:
        parts: Files, and the bytes that are wanted from the beginning of each.
    """

    def __init__(self, parts: Sequence[tuple[Path, int]]) -> None:
        self._files: list[tuple[int, int]] = []
        try:
            for path, size in parts:
                self._files.append((os.open(path, os.O_RDONLY), size))
        except OSError:
            self._release()
            raise
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="read-ahead", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop asking."""
        self._ended.set()
        self._thread.join()

    def _ask(self) -> None:
        try:
            for descriptor, size in self._files:
                for start in range(0, size, _CHUNK_BYTES):
                    if self._ended.is_set():
                        return
                    length = min(_CHUNK_BYTES, size - start)
                    os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_WILLNEED)
        finally:
            self._release()

    def _release(self) -> None:
        for descriptor, _ in self._files:
            os.close(descriptor)
