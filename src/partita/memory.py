"""How much memory this process holds, and held at most."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_STATUS, _REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
#: What, written to the second file, makes the peak begin anew.
_RESET = "5"
#: The first range of addresses that a worker's engine takes for what it computes: well above what
#: networks for photos need, but for a few, as near its end the allocator uses it badly. What is
#: never written takes no memory, but an index of the range does: a thirty-second of it.
ARENA_BYTES = 2**25


def reset_peak() -> int:
    """Let the peak begin at what is held now, where the system allows it; return that.

    Returns:
        Bytes resident, mapped files included; 0 where the system does not say.
    """
    with suppress(OSError):
        _REFS.write_text(_RESET)
    return _read("VmRSS")


def peak_bytes() -> int:
    """The most bytes that were resident since the last reset; 0 where unknown."""
    return _read("VmHWM")


def private_bytes() -> int:
    """The bytes that are resident, in no file and shared with no other process; 0 where unknown."""
    return _read("RssAnon")


def release() -> None:
    """Give what is free inside this process back to the system, where the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def tune_malloc(settings: Mapping[int, int]) -> None:
    """Set parameters of glibc's malloc for this process; nothing happens with other C libraries.

    Args:
        settings: Values by parameter, as mallopt(3) has them.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    for parameter, value in settings.items():
        mallopt(parameter, value)


def _read(key: str) -> int:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    line = next((line for line in lines if line.startswith(f"{key}:")), f"{key}: 0")
    return int(line.split()[1]) * 1024
