"""A worker installed on another machine that needs no internet."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from partita.provision.remote import Host
from partita.provision.target import Target, read_target
from partita.provision.wheelhouse import find_source, make_wheelhouse
from partita.version import VERSION

UNIT = "partita-worker.service"
#: Where things are copied before anything changes; below the home folder.
_INCOMING = "partita/incoming"
_EMPTY = f'rm -rf "$HOME/{_INCOMING}" && mkdir -p -m 700 "$HOME/partita"'


@dataclass(frozen=True)
class Installation:
    """What is installed.

    Attributes:
        join: The worker's join file.
        wheel: Partita's wheel; one is made of what is installed here by default.
        flags: More flags of ``partita worker``.
    """

    join: Path
    wheel: Path | None = None
    flags: str = ""


def read_part(name: str) -> str:
    """A file that comes with this package."""
    return files("partita.provision").joinpath(name).read_text(encoding="utf-8")


def probe(host: Host) -> Target:
    """What a host is, which changes nothing there.

    Raises:
        RunError: It is not reached, or cannot have a worker.
    """
    return read_target(host.name, host.run_script(read_part("probe.sh")))


def list_steps(host: Host, target: Target, wanted: Installation) -> list[str]:
    """What :func:`install` does, as commands."""
    source = wanted.wheel or find_source()
    release = _name_release()
    places = {"root": "/etc/systemd/system", "user": "~/.config/systemd/user"}
    unit = f"{places.get(target.systemd, '~/partita')}/{UNIT}"
    start = "enabled and started" if target.systemd != "none" else "not started: no systemd there"
    return [
        f"pip download --only-binary=:all: --platform {target.platforms[0]} ... --python-version"
        f" {target.version} --dest wheels {source}",
        shlex.join([*host.script()[:-1], _EMPTY]),
        shlex.join(host.copy(Path("incoming"), _INCOMING)) + "  # wheels, unit, join file",
        f"on {host.name}: {target.python} -m venv ~/partita/releases/{release}",
        f"on {host.name}: pip install --no-index --find-links ~/{_INCOMING}/wheels partita",
        f"on {host.name}: ln -sfn ~/partita/releases/{release} ~/partita/current",
        f"on {host.name}: {unit}: {start}",
    ]


def install(host: Host, target: Target, wanted: Installation, tell: Callable[[str], None]) -> None:
    """Install a worker, or a new release of it, and start it where there is systemd.

    Until all is there the one that runs goes on; a failure leaves it as it was.

    Raises:
        RunError: Wheels are missing, the host is not reached, or refuses.
    """
    with tempfile.TemporaryDirectory(prefix="partita-") as folder:
        incoming = Path(folder) / "incoming"
        wheels = incoming / "wheels"
        wheels.mkdir(parents=True)
        tell(
            f"fetching wheels for {target.machine} with glibc 2.{target.glibc},"
            f" Python {target.version}"
        )
        make_wheelhouse(wheels, target, wanted.wheel)
        (incoming / UNIT).write_text(read_part(UNIT), encoding="utf-8")
        (incoming / "flags").write_text(f"FLAGS={wanted.flags}\n", encoding="utf-8")
        shutil.copyfile(wanted.join, incoming / "member.join")
        (incoming / "member.join").chmod(0o600)
        tell(f"copying its wheels to {host.name}")
        host.run_script(_EMPTY)
        host.send(incoming, _INCOMING)
    tell(f"installing on {host.name}")
    told = host.run_script(read_part("install.sh"), target.python, _name_release(), target.systemd)
    for line in told.splitlines():
        if line.startswith("note: "):
            tell(line)


def _name_release() -> str:
    """One that no release before has: the same version may be another build."""
    return f"{VERSION}-{datetime.now(UTC):%Y%m%d%H%M%S}"
