"""Reading a file of weights ahead of the layers that need them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from partita.loading.serve.detached_thread import DetachedThread

#: Asked for at a time: the kernel cuts one request short at about this much, whatever its length.
_CHUNK_BYTES = 2**20
#: Places of a file that are looked at, evenly apart, to tell whether it is in memory. Not tuned: so
#: many reads of a byte take microseconds.
_PROBES = 32


class ReadAhead:
    """A thread that asks the system for files' pages, in order, until all are asked for.

    What is asked for is read while others compute. Where all seems to be in memory there is no
    thread: starting it holds up what loads by milliseconds.

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
        self._is_closed = False
        self._thread: DetachedThread | None = None
        if all(_is_cached(descriptor, size) for descriptor, size in self._files):
            self._release()
        else:
            try:
                self._thread = DetachedThread(self._ask)
            except RuntimeError:  # no thread is to be had: layers wait for what they read
                self._release()

    def close(self) -> None:
        """Stop asking."""
        self._is_closed = True
        if self._thread is not None:
            self._thread.join()

    def _ask(self) -> None:
        try:
            for descriptor, size in self._files:
                for start in range(0, size, _CHUNK_BYTES):
                    if self._is_closed:
                        return
                    length = min(_CHUNK_BYTES, size - start)
                    os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_WILLNEED)
        finally:
            self._release()

    def _release(self) -> None:
        for descriptor, _ in self._files:
            os.close(descriptor)


def _is_cached(descriptor: int, size: int) -> bool:
    """Whether a file's last byte and some others are in memory; False where none can tell."""
    byte = bytearray(1)
    places = {max(0, size * place // _PROBES - 1) for place in range(_PROBES + 1)}
    try:
        return all(os.preadv(descriptor, [byte], at, os.RWF_NOWAIT) for at in sorted(places))
    except (OSError, AttributeError):  # not there yet, or a system without such reads
        return False
