"""What a machine has to be for a worker, and which wheels it takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from partita.errors import RunError
from partita.units import format_bytes

#: The oldest Python that Partita runs on.
_PYTHON = "3.11"
#: The oldest glibc 2 that the wheels of the engine and of the transport are built for.
_GLIBC = 28
#: Of glibc 2: what manylinux2014 stands for, the oldest that wheels are still built for.
_FIRST_MINOR = 17
#: Machines that there are wheels for, by the names that systems give them.
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
#: Wheels, and what they are unpacked: 52 and 252 MB for x86; some room beside.
NEEDED_BYTES = 400 * 10**6


@dataclass(frozen=True)
class Target:
    """A machine that can have a worker.

    Attributes:
        python: The command of its Python.
        version: That Python's, such as ``3.11``.
        machine: Its processor, as tags of wheels have it.
        glibc: The minor version of its glibc 2.
        systemd: ``root`` for a unit of the system, ``user`` for one of the user, or ``none``.
    """

    python: str
    version: str
    machine: str
    glibc: int
    systemd: str

    @property
    def platforms(self) -> tuple[str, ...]:
        """The tags of wheels that it takes, the newest first; pip asks for each by itself."""
        minors = range(self.glibc, _FIRST_MINOR - 1, -1)
        tags = [f"manylinux_2_{minor}_{self.machine}" for minor in minors]
        return (*tags, f"manylinux2014_{self.machine}")


def read_target(host: str, facts: str) -> Target:
    """What the probe told of a host.

    Raises:
        RunError: It cannot have a worker; the message says why, and what to do.
    """
    told = dict(line.split("=", 1) for line in facts.splitlines() if "=" in line)
    machine = _MACHINES.get(told.get("machine", ""))
    if told.get("system") != "Linux" or machine is None:
        what = f"{told.get('system') or 'unknown'} on {told.get('machine') or 'unknown'}"
        raise _unfit(host, f"it is {what}, allowed is 64-bit Linux on x86 or ARM")
    libc = re.fullmatch(r"glibc (\d+)\.(\d+).*", told.get("libc", ""))
    if libc is None or libc[1] != "2" or int(libc[2]) < _GLIBC:
        found = told.get("libc") or "no glibc"
        raise _unfit(host, f"it has {found}, allowed is glibc 2.{_GLIBC} or newer")
    if not told.get("python"):
        found = f"Python {told['version']}" if told.get("version") else "no Python"
        raise _unfit(
            host,
            f"it has {found}, needed is {_PYTHON} or newer: install one, or put it beside the"
            f" system's with 'uv python install' and on the PATH",
        )
    if not told.get("venv"):
        package = f"python{told.get('version')}-venv"
        raise _unfit(host, f"its Python makes no environments: install its package {package}")
    free_bytes = int(told.get("free_kib") or 0) * 1024
    if free_bytes < NEEDED_BYTES:
        raise _unfit(
            host,
            f"its home folder has {format_bytes(free_bytes)} left, needed are"
            f" {format_bytes(NEEDED_BYTES)}: make room",
        )
    systemd = "none" if not told.get("systemd") else "root" if told.get("is_root") else "user"
    return Target(told["python"], told.get("version", ""), machine, int(libc[2]), systemd)


def _unfit(host: str, why: str) -> RunError:
    return RunError(f"Host '{host}' cannot have a worker: {why}.", device=host)
