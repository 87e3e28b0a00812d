"""Fragments and weights on disk by content hash: verified, bounded, shared by processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

from partita.errors import RunError, first_line
from partita.units import format_bytes
from partita.worker.messages import Disk

DEFAULT_QUOTA_BYTES = 4 * 10**9

#: Content that a leader asked for, and an upload, wait so long for its next message; not tuned. A
#: chunk of 1 MiB takes 130 s at 64 kbit/s.
LEASE_S = 300.0
#: A leader has one upload under way on a worker, and one epoch that it has not prepared.
MAX_UPLOADS = MAX_LEASES = 64

_HASH = re.compile(r"^[0-9a-f]{64}$")
#: Hashed at a time: larger than caches, so that the loop costs nothing beside SHA-256.
_HASH_BYTES = 2**22
_UPLOAD_SUFFIX = ".part"

Bytes = npt.NDArray[np.uint8]


def default_store_dir() -> Path:
    """The store's directory in the user's cache (XDG)."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "partita" / "store"


@dataclass
class _Upload:
    path: Path
    size_bytes: int
    used_s: float
    done_bytes: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)


@dataclass
class _Pin:
    """Content of one epoch.

    Attributes:
        ends_s: When its lease is over; None while the epoch is prepared, or stands by.
        spare_of: The leader for which it stands by; empty for what must stay.
    """

    hashes: frozenset[str]
    ends_s: float | None = None
    spare_of: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the epoch is not prepared, and may never be."""
        return self.ends_s is not None or bool(self.spare_of)


class Store:
    """A content-addressed directory: files named by their SHA-256, kept under a quota.

    Content of an epoch is pinned and never evicted; the rest is evicted least recently used first,
    what stands by for a loss after all else, and only for bytes that have arrived. What a leader
    asked for or began to send stays for a lease after its last message: a leader that dies
    meanwhile leaves nothing pinned or half-written.
    Several processes may share one directory: files appear by a rename, whole or not at all.

    Args:
        root: The directory; created when missing.
        quota_bytes: Most bytes that the directory may hold.
        owner: Worker named in errors.
        now_s: Seconds on a clock that never goes back.
    """

    def __init__(
        self,
        root: Path,
        quota_bytes: int = DEFAULT_QUOTA_BYTES,
        *,
        owner: str = "",
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = root
        self.quota_bytes = quota_bytes
        self._owner = owner
        self._now_s = now_s
        self._lock = threading.RLock()
        self._uploads: dict[str, _Upload] = {}
        self._pins: dict[int, _Pin] = {}
        self._verified: set[tuple[str, int, int]] = set()
        #: Bytes that may come before the directory is looked through again.
        self._room_bytes = 0
        root.mkdir(parents=True, exist_ok=True)
        self._sweep()

    def missing(self, hashes: Iterable[str]) -> tuple[str, ...]:
        """Those of ``hashes`` that the store lacks, without duplicates, in order.

        Damaged files are deleted and count as missing.
        """
        return tuple(h for h in dict.fromkeys(hashes) if not self._is_sound(h))

    def lease(self, epoch: int, hashes: Iterable[str], spare_of: str = "") -> None:
        """Keep ``hashes`` for ``LEASE_S`` seconds after each chunk of them, or until :meth:`pin`.

        Args:
            spare_of: The leader for which they stand by: they stay until :meth:`unpin` or
                :meth:`release`, in room that nothing else needs.

        Raises:
            RunError: ``MAX_LEASES`` epochs have been announced and not prepared.
        """
        with self._lock:
            self._end_leases()
            leases = [other for other, pin in self._pins.items() if pin.is_open]
            if epoch not in self._pins and len(leases) >= MAX_LEASES:
                raise self._error(f"{MAX_LEASES} plans are on their way to it already; try later.")
            held = self._pins.get(epoch)
            if held is None or held.is_open:
                ends_s = None if spare_of else self._now_s() + LEASE_S
                self._pins[epoch] = _Pin(frozenset(hashes), ends_s, spare_of)

    def release(self, leader: str) -> None:
        """Allow eviction of what stands by for a leader."""
        with self._lock:
            for epoch in [epoch for epoch, pin in self._pins.items() if pin.spare_of == leader]:
                del self._pins[epoch]

    def pin(self, epoch: int, hashes: Iterable[str]) -> None:
        """Keep ``hashes`` from eviction until :meth:`unpin` of the same epoch."""
        with self._lock:
            self._pins[epoch] = _Pin(frozenset(hashes))

    def unpin(self, epoch: int) -> None:
        """Allow eviction of the content that ``epoch`` pinned."""
        with self._lock:
            self._pins.pop(epoch, None)

    def put(self, content_hash: str, data: bytes | memoryview) -> None:
        """Store ``data`` whole; see :meth:`put_chunk`."""
        self.put_chunk(content_hash, 0, len(data), data)

    def put_chunk(
        self, content_hash: str, offset: int, size_bytes: int, data: bytes | memoryview
    ) -> bool:
        """Append one chunk of an upload; return whether the file is complete.

        Args:
            content_hash: SHA-256 of the whole content, in hexadecimal.
            offset: Position of the chunk in bytes; 0 begins the upload anew.
            size_bytes: Size of the whole content.

        Raises:
            RunError: The quota or the disk is full, the chunk does not follow the last one, or the
                content is not what the hash says. Nothing stays on disk then.
        """
        path = self._path(content_hash)
        with self._lock:
            self._end_leases()
            try:
                return self._append(content_hash, path, (offset, size_bytes), data)
            except OSError as error:
                self._drop(content_hash)
                reason = error.strerror or first_line(error)
                raise self._error(f"{content_hash[:12]}… cannot be written: {reason}.") from None
            except RunError:
                self._drop(content_hash)
                raise

    def _append(
        self, content_hash: str, path: Path, place: tuple[int, int], data: bytes | memoryview
    ) -> bool:
        offset, size_bytes = place
        if offset == 0:
            self._begin(content_hash, size_bytes)
        upload = self._uploads.get(content_hash)
        if upload is None or upload.size_bytes != size_bytes or upload.done_bytes != offset:
            raise self._error(
                f"{content_hash[:12]}… got a chunk at byte {offset} that does not follow the "
                "last one; begin the upload again."
            )
        if offset + len(data) > size_bytes:
            raise self._error(
                f"content named {content_hash[:12]}… has more than the {size_bytes} bytes that "
                "were said; it was damaged on the way."
            )
        self._renew(content_hash, upload)
        self._make_room(len(data))
        with upload.path.open("ab") as file:
            file.write(data)
        upload.digest.update(data)
        upload.done_bytes += len(data)
        if upload.done_bytes < size_bytes:
            return False
        self._finish(content_hash, upload, path)
        return True

    def open(self, content_hash: str) -> Bytes:
        """The content, memory-mapped read-only, as bytes of shape ``(size,)``.

        Raises:
            RunError: The content is missing, or damaged; a damaged file is deleted.
        """
        path = self._path(content_hash)
        try:
            stat = path.stat()
            # Nothing cannot be mapped.
            mapped: Bytes = np.memmap(path, np.uint8, "r") if stat.st_size else np.empty(0, "u1")
        except OSError:
            raise self._error(
                f"{content_hash[:12]}… is not there; deploy the plan again."
            ) from None
        key = (content_hash, stat.st_size, stat.st_mtime_ns)
        if key not in self._verified:
            self._verify(content_hash, mapped, path)
        with contextlib.suppress(OSError):
            # The time of last use alone may change: other processes know content by the other one.
            os.utime(path)
            os.utime(path, ns=(path.stat().st_atime_ns, stat.st_mtime_ns))
            self._verified.add(key)
        return mapped

    def used_bytes(self) -> int:
        """Bytes on disk, unfinished uploads of this process included."""
        return sum(size for _, size, _ in self._files()) + self._upload_bytes()

    def measure_disk(self) -> Disk:
        """What the store and its disk hold now."""
        free_bytes = int(psutil.disk_usage(str(self.root)).free)
        return Disk(self.used_bytes(), self.quota_bytes, free_bytes)

    def close(self) -> None:
        """Delete unfinished uploads."""
        with self._lock:
            for content_hash in list(self._uploads):
                self._drop(content_hash)

    def _is_sound(self, content_hash: str) -> bool:
        try:
            self.open(content_hash)
        except RunError:
            return False  # absent or damaged: either way it is pushed again
        return True

    def _path(self, content_hash: str) -> Path:
        if not _HASH.match(content_hash):
            raise self._error(f"{content_hash[:80]!r} is not a SHA-256 in hexadecimal.")
        return self.root / content_hash

    def _sweep(self) -> None:
        """Delete unfinished uploads of processes that no longer live."""
        for path in self.root.glob(f".*{_UPLOAD_SUFFIX}"):
            fields = path.name.split("-")
            pid = int(fields[1]) if len(fields) == 3 and fields[1].isdigit() else 0
            if pid and not psutil.pid_exists(pid):
                path.unlink(missing_ok=True)

    def _error(self, what: str) -> RunError:
        return RunError(f"Store of worker {self._owner!r}: {what}", device=self._owner)

    def _files(self) -> list[tuple[float, int, Path]]:
        """Time of last use (s), size (bytes) and path per file, least recently used first."""
        files = []
        for path in self.root.iterdir():
            if _HASH.match(path.name):
                with contextlib.suppress(OSError):  # evicted by another process meanwhile
                    stat = path.stat()
                    files.append((stat.st_atime, stat.st_size, path))
        return sorted(files)

    def _begin(self, content_hash: str, size_bytes: int) -> None:
        self._drop(content_hash)
        if len(self._uploads) >= MAX_UPLOADS:
            raise self._error(f"{MAX_UPLOADS} uploads are under way already; try later.")
        pinned_bytes = sum(size for _, size, path in self._files() if path.name in self._pinned())
        self._check_room(pinned_bytes + self._upload_bytes(), size_bytes)
        self._room_bytes = 0
        name = f".{content_hash[:16]}-{os.getpid()}-{uuid.uuid4().hex[:8]}{_UPLOAD_SUFFIX}"
        self._uploads[content_hash] = _Upload(self.root / name, size_bytes, self._now_s())

    def _renew(self, content_hash: str, upload: _Upload) -> None:
        """Let the leases of an upload and of the epochs that wait for it begin anew."""
        upload.used_s = self._now_s()
        for pin in self._pins.values():
            if pin.ends_s is not None and content_hash in pin.hashes:
                pin.ends_s = upload.used_s + LEASE_S

    def _end_leases(self) -> None:
        """Release what epochs that were never prepared, and uploads without an end, have held."""
        now_s = self._now_s()
        for epoch, pin in list(self._pins.items()):
            if pin.ends_s is not None and pin.ends_s < now_s:
                del self._pins[epoch]
        for content_hash, upload in list(self._uploads.items()):
            if upload.used_s + LEASE_S < now_s:
                self._drop(content_hash)

    def _pinned(self, *, spare: bool = False) -> frozenset[str]:
        """The content that must stay, or that which stands by."""
        pins = (pin.hashes for pin in self._pins.values() if bool(pin.spare_of) == spare)
        return frozenset[str]().union(*pins)

    def _upload_bytes(self) -> int:
        """Bytes of unfinished uploads that have arrived."""
        return sum(upload.done_bytes for upload in self._uploads.values())

    def _make_room(self, size_bytes: int) -> None:
        self._room_bytes -= size_bytes
        if self._room_bytes >= 0:
            return
        pinned, spare = self._pinned(), self._pinned(spare=True)
        files = sorted(self._files(), key=lambda file: file[2].name in spare)
        used = sum(size for _, size, _ in files) + self._upload_bytes()
        for _, size, path in files:
            if used + size_bytes <= self.quota_bytes:
                break
            if path.name not in pinned:
                path.unlink(missing_ok=True)
                used -= size
        self._check_room(used, size_bytes)
        self._room_bytes = self.quota_bytes - used - size_bytes

    def _check_room(self, used_bytes: int, size_bytes: int) -> None:
        if used_bytes + size_bytes > self.quota_bytes:
            raise self._error(
                f"no room for {format_bytes(size_bytes)}: quota {format_bytes(self.quota_bytes)}, "
                f"{format_bytes(used_bytes)} in use by plans. Raise --quota."
            )

    def _finish(self, content_hash: str, upload: _Upload, path: Path) -> None:
        got = upload.digest.hexdigest()
        if got != content_hash:
            raise self._error(
                f"content named {content_hash[:12]}… has hash {got[:12]}…; it was damaged on the "
                "way."
            )
        upload.path.touch()
        upload.path.replace(path)
        del self._uploads[content_hash]

    def _drop(self, content_hash: str) -> None:
        upload = self._uploads.pop(content_hash, None)
        if upload is not None:
            upload.path.unlink(missing_ok=True)

    def _verify(self, content_hash: str, content: Bytes, path: Path) -> None:
        digest = hashlib.sha256()
        for start in range(0, content.size, _HASH_BYTES):
            digest.update(content[start : start + _HASH_BYTES].data)
        if digest.hexdigest() != content_hash:
            path.unlink(missing_ok=True)
            raise self._error(
                f"{content_hash[:12]}… was damaged on disk and is deleted; deploy the plan again."
            )
