"""Files that people name: only regular ones are read, and what is written appears whole.

Of several processes that write one file the last has it. No folders are made but the one that is
written.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def read_regular(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: It is missing, unreadable, a folder, a device or a pipe, or its name cannot be
            one; ``strerror`` says which, for a message.
    """
    require_regular(path)
    return path.read_bytes()


def require_regular(path: Path) -> None:
    """Raise unless a path is that of a regular file.

    Raises:
        OSError: As for :func:`read_regular`.
    """
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file, such as a device or a pipe")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file: all of it appears, or nothing, and what was there before stays.

    What a link points to is written. Devices and pipes take the data as it comes: they cannot be
    replaced.

    Raises:
        OSError: It cannot be written; ``strerror`` says why, for a message.
    """
    if _is_stream(path):
        path.write_bytes(data)
        return
    target, partial = _places(path)
    try:
        partial.write_bytes(data)
        os.replace(partial, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and error.strerror:  # a full disk's error names no file
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def require_writable(path: Path) -> None:
    """Raise where :func:`write_whole` would, as far as that shows before there is data.

    Raises:
        OSError: It is a folder, or no file of that name can be made; ``strerror`` says why.
    """
    if _is_stream(path):
        if not os.access(path, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return
    target, partial = _places(path)
    with contextlib.suppress(FileNotFoundError):
        partial.lstat()  # its name may be too long
    require_room(target.parent)


def require_room(folder: Path) -> None:
    """Raise unless files can be made in a folder, by making one that has no name.

    Permissions alone say too little: root has them all, on read-only disks and in ``/proc``, too.

    Raises:
        OSError: They cannot; ``strerror`` says why, ``filename`` is the folder.
    """
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None


def make_folder(folder: Path) -> None:
    """Make a folder that keeps results, with all that it lies in, before there is a result.

    Raises:
        OSError: It cannot be made, or no files in it; ``strerror`` says why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    require_room(folder)


def _is_stream(path: Path) -> bool:
    """Whether a path is that of a device or a pipe; folders are refused."""
    with contextlib.suppress(FileNotFoundError):
        mode = _mode(path)
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        return not stat.S_ISREG(mode)
    return False


def _places(path: Path) -> tuple[Path, Path]:
    """The file that is written, behind links, and the one beside it that takes its place."""
    target = Path(os.path.realpath(path))
    return target, target.with_name(_name_partial(target.name))


def _name_partial(name: str) -> str:
    """What a file is called until it is whole: another name in every process."""
    return f"{name}.{os.getpid()}.partial"


def write_folder(folder: Path, contents: Mapping[str, bytes], *, is_private: bool = False) -> None:
    """Write files into a folder: all of them appear, or none.

    It is made where it is missing, but what it lies in is not: a path with a slip makes no tree.

    Args:
        folder: Other files in it stay.
        contents: By the files' names.
        is_private: Whether nobody else may read them, nor the folder where it is new.

    Raises:
        OSError: One cannot be written; ``strerror`` says why.
    """
    is_new = not folder.exists()
    folder.mkdir(0o700 if is_private else 0o777, exist_ok=True)
    partials = {name: folder / _name_partial(name) for name in contents}
    try:
        for name, data in contents.items():
            if is_private:
                partials[name].unlink(missing_ok=True)
                partials[name].touch(0o600)
            partials[name].write_bytes(data)
        for name, partial in partials.items():
            os.replace(partial, folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            for partial in partials.values():
                partial.unlink(missing_ok=True)
            if is_new:
                folder.rmdir()
        raise


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except ValueError:
        raise OSError(errno.EINVAL, "its name holds a NUL character") from None


def pack_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The bytes of a ``.npz`` file; NumPy's own writer would take names for its parameters'."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)
    return packed.getvalue()
