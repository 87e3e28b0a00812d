"""Shared memory for pieces to the same host."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import zenoh

from partita.fabric.base import Payload

_LEAST_BYTES = 8 * 2**20
_PAUSE_S = 0.0003
_SCRATCH_BYTES = 128 * 1024
_PATIENCE_S = 0.1


class SharedPool:
    """Memory from which pieces are lent until their receiver has read them.

    It is taken when the first piece needs it; a worker without neighbours on its host needs none.

    Args:
        wanted_bytes: Size of the pool; less where the host has little.
    """

    def __init__(self, wanted_bytes: int) -> None:
        self.size_bytes = find_shared_bytes(wanted_bytes)
        self._lock = threading.Lock()
        self._provider: Any = None
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)

    @property
    def chunk_bytes(self) -> int:
        """Largest part of a piece to lend at once: several fit, whatever lies between them."""
        return self.size_bytes // 4

    def lend(self, data: Payload) -> Any:
        """Return a copy of ``data`` in the pool, or as bytes where no room becomes free."""
        deadline_s = time.monotonic() + _PATIENCE_S
        with self._lock:
            while True:
                try:
                    if self._provider is None:
                        self._provider = zenoh.shm.ShmProvider.default_backend(self.size_bytes)
                    room = self._provider.alloc(len(data), policy=zenoh.shm.GarbageCollect())
                except zenoh.ZError:
                    if time.monotonic() > deadline_s:
                        return bytes(data)
                    time.sleep(_PAUSE_S)  # the receiver is still reading earlier pieces
                else:
                    self._fill(room, data)
                    return room

    def _fill(self, room: Any, data: Payload) -> None:
        """Copy through a scratch that stays in the cache; Zenoh takes bytes objects only."""
        whole = len(data) - len(data) % _SCRATCH_BYTES
        for start in range(0, whole, _SCRATCH_BYTES):
            self._scratch_view[:] = data[start : start + _SCRATCH_BYTES]
            room[start : start + _SCRATCH_BYTES] = self._scratch
        if whole < len(data):
            room[whole : len(data)] = bytes(data[whole:])


def find_shared_bytes(wanted_bytes: int) -> int:
    """Return how much of the wanted shared memory an endpoint may take; 0 where there is little.

    A container's few MB must not be overdrawn: writing beyond them would kill the process.
    """
    try:
        status = os.statvfs("/dev/shm")
    except OSError:
        return 0
    share = status.f_bavail * status.f_frsize // 16
    return min(wanted_bytes, share) if share >= _LEAST_BYTES else 0
