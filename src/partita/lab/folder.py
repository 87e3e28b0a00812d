"""The folder of a lab: gone with it, or with the next lab where its process was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "partita-lab-"
#: Held by the process that the folder belongs to; the kernel frees it when that ends, however.
_LOCK = "lock"


@contextlib.contextmanager
def open_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder for logs and shared media; those of labs that were killed are deleted first.

    Args:
        parent: Where the folders lie; the system's folder for temporary files by default.
    """
    parent = parent or Path(tempfile.gettempdir())
    _sweep(parent)
    folder, lock = _make(parent)
    owner = os.getpid()
    try:
        yield folder
    finally:
        os.close(lock)
        if os.getpid() == owner:  # a fork leaves the folder to the process that made it
            shutil.rmtree(folder, ignore_errors=True)


def _make(parent: Path) -> tuple[Path, int]:
    """A folder and the descriptor that locks it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _take(lock):
            return folder, lock
        os.close(lock)  # another lab that starts took the new folder for a dead one, and deletes it


def _sweep(parent: Path) -> None:
    """Delete the folders of this user whose processes have ended."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # another user's, or one that is being made
            continue
        try:
            if _take(lock):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _take(lock: int) -> bool:
    """Whether nobody held the lock; it is then held here."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
