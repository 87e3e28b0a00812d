"""What processes have in common that run on one machine."""

from __future__ import annotations

import os
import platform
import time
from functools import cache


@cache
def boot_id() -> str:
    """Which start of which machine this is; empty where the system does not tell (not Linux)."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def namespace(kind: str) -> str:
    """Which namespace of a kind (``net``, ``time``) this process is in; empty if there are none."""
    try:
        return str(os.stat(f"/proc/self/ns/{kind}").st_ino)
    except OSError:
        return ""


def clock_origin() -> str:
    """Equal where ``time.monotonic`` of two processes is one clock; empty where nobody knows."""
    return f"{boot_id()}/{namespace('time')}" if boot_id() else ""


def time_of_day_s() -> float:
    """Seconds since 1970 by this machine's clock: certificates count on it, and nothing else."""
    return time.time()


def machine_name() -> str:
    """Processor and system, as the system names them; machines of one make have the same."""
    return f"{platform.machine()} {platform.processor() or platform.system()}".strip()


def host_name() -> str:
    """What the processes of one machine have in common: its start, else its name."""
    return boot_id() or platform.node()
