"""Reading files that people name: only regular ones, so that no device is read for ever."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: It is missing, unreadable, a folder, a device or a pipe, or its name cannot be
            one; ``strerror`` says which, for a message.
    """
    try:
        mode = path.stat().st_mode
    except ValueError:
        raise OSError(errno.EINVAL, "its name holds a NUL character") from None
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file, such as a device or a pipe")
    return path.read_bytes()
