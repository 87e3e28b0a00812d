"""Shared memory for pieces to the same host: one ring per target, filled and read by copies.

The ring is an anonymous file (memfd) that its reader opens through ``/proc``: nothing is left
behind when a process is killed. Its first bytes hold how far the reader has read; the sender writes
on from there. Where the ring is full, or cannot be had, pieces travel as bytes.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import time
from dataclasses import dataclass, field

import msgspec
import numpy as np

from partita.fabric.base import Payload

_NAME = "partita-ring"
_HEAD_BYTES = 64
_COUNTER = struct.Struct("<Q")
_LEAST_BYTES = 8 * 2**20
_PAUSE_S = 0.0001
_PATIENCE_S = 0.05


class Ticket(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a chunk lies: the sender's ring, and how far the ring is written after it."""

    process: int
    file: int
    size_bytes: int
    offset: int
    length: int
    written: int


class SharedRing:
    """The sender's side: a ring that one reader reads in order.

    Args:
        size_bytes: Room for chunks; memory is taken as it is first written.

    Raises:
        OSError: The system gives no such memory.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._file = os.memfd_create(_NAME, os.MFD_CLOEXEC)
        os.ftruncate(self._file, _HEAD_BYTES + size_bytes)
        self._map = mmap.mmap(self._file, _HEAD_BYTES + size_bytes)
        self._room = np.frombuffer(self._map, np.uint8, offset=_HEAD_BYTES)
        self._written = 0
        self._begun = 0

    @property
    def chunk_bytes(self) -> int:
        """Largest part of a piece to lend at once: several fit."""
        return self.size_bytes // 4

    def lend(self, data: Payload) -> Ticket | None:
        """Copy ``data`` into the ring and return where it lies; None where no room becomes free."""
        length = len(data)
        start = self._written
        is_idle = _COUNTER.unpack_from(self._map)[0] == start
        if is_idle or start % self.size_bytes + length > self.size_bytes:
            # A chunk lies in one piece; an empty ring begins anew, where the cache still has it.
            start += -start % self.size_bytes
        if is_idle:
            self._begun = start
        if not self._await_room(start + length):
            return None
        offset = start % self.size_bytes
        self._room[offset : offset + length] = np.frombuffer(data, np.uint8)
        self._written = start + length
        return Ticket(os.getpid(), self._file, self.size_bytes, offset, length, self._written)

    def _await_room(self, end: int) -> bool:
        deadline_s = 0.0
        while end - max(self._begun, _COUNTER.unpack_from(self._map)[0]) > self.size_bytes:
            deadline_s = deadline_s or time.monotonic() + _PATIENCE_S
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_PAUSE_S)  # the reader is still at earlier chunks
        return True

    def close(self) -> None:
        """Give the memory back; a reader that still maps it keeps it until it closes too."""
        self._room = np.empty(0, np.uint8)
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self._file)


@dataclass
class SharedRings:
    """The reader's side: rings of other processes, opened when a first chunk lies there."""

    _maps: dict[tuple[int, int], mmap.mmap] = field(default_factory=dict)

    def read(self, ticket: Ticket) -> memoryview:
        """Return a copy of a chunk, and tell the sender that its room is free.

        Raises:
            ValueError: There is no such ring, or the ticket leaves it.
        """
        if not 0 <= ticket.offset <= ticket.size_bytes - ticket.length or ticket.length < 0:
            raise ValueError(f"chunk at {ticket.offset} of {ticket.length} bytes leaves its ring")
        key = (ticket.process, ticket.file)
        shared = self._maps.get(key) or self._open(key, ticket.size_bytes)
        start = _HEAD_BYTES + ticket.offset
        if start + ticket.length > len(shared):
            raise ValueError(f"ring has {len(shared)} bytes, the chunk ends beyond")
        copy = np.frombuffer(shared, np.uint8, count=ticket.length, offset=start).copy()
        _COUNTER.pack_into(shared, 0, ticket.written)
        return copy.data

    def _open(self, key: tuple[int, int], size_bytes: int) -> mmap.mmap:
        path = f"/proc/{key[0]}/fd/{key[1]}"
        try:
            # The name is looked at first: nothing but a ring is ever opened.
            if not os.readlink(path).startswith(f"/memfd:{_NAME}"):
                raise ValueError(f"{path} is no ring")
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise ValueError(f"ring {path} cannot be opened: {error.strerror}") from error
        try:
            shared = mmap.mmap(file, _HEAD_BYTES + size_bytes)
        except (OSError, ValueError) as error:
            raise ValueError(f"ring {path} is smaller than it says") from error
        finally:
            os.close(file)
        self._maps[key] = shared
        return shared

    def close(self) -> None:
        """Let go of all rings."""
        for shared in self._maps.values():
            with contextlib.suppress(BufferError):
                shared.close()
        self._maps.clear()


def open_ring(wanted_bytes: int) -> SharedRing | None:
    """Return a ring, smaller where the host has little shared memory; None where there is none."""
    size_bytes = find_shared_bytes(wanted_bytes)
    if not size_bytes or not hasattr(os, "memfd_create"):
        return None
    try:
        return SharedRing(size_bytes)
    except OSError:
        return None


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
