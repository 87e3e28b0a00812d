"""Installing a worker on another machine."""

from __future__ import annotations

import shlex
from pathlib import Path

from partita.cli.output import Reply, say
from partita.errors import InputError
from partita.fabric.join import read_join
from partita.files import require_regular
from partita.provision.install import Installation, install, list_steps, probe
from partita.provision.remote import Host


def read_wanted(join: Path, wheel: Path | None, flags: str) -> Installation:
    """What is to be installed, as far as it can be right.

    Raises:
        InputError: The wheel is no file, the flags are no text of words, or the file is not a
            worker's.
        ClusterError: The join file cannot be used.
    """
    role = read_join(join).member.role
    if role != "worker":
        raise InputError(
            f"Join file '{join}' is a {role}'s; give the one that was made for this host's worker.",
            subject="--join",
        )
    if wheel is not None:
        try:
            require_regular(wheel)
        except OSError as error:
            raise InputError(
                f"--wheel '{wheel}' cannot be used: {error.strerror}.", subject="--wheel"
            ) from None
    try:
        is_one_line = flags.isprintable() and bool(shlex.split(flags) or not flags)
    except ValueError:
        is_one_line = False
    if not is_one_line:
        raise InputError(
            f"--worker-flags is {flags!r}, allowed is one line such as '--threads 2'.",
            subject="--worker-flags",
        )
    return Installation(join, wheel, flags)


def install_on(name: str, options: tuple[str, ...], wanted: Installation, *, is_dry: bool) -> Reply:
    """Install on a host, or say what would be done.

    Raises:
        InputError: The host's name would be taken for a flag.
        RunError: The host is not reached, cannot have a worker, or refuses.
    """
    if name.startswith("-") or not name.strip():
        raise InputError(f"HOST is '{name}', allowed is a host's name.", subject="HOST")
    host = Host(name, options)
    say(f"looking at {name}")
    target = probe(host)
    payload = {
        "host": name,
        "machine": target.machine,
        "glibc": f"2.{target.glibc}",
        "python": target.version,
        "supervisor": target.systemd,
    }
    if is_dry:
        steps = list_steps(host, target, wanted)
        return Reply({**payload, "steps": steps}, [*steps])
    install(host, target, wanted, say)
    told = f"Worker installed on {name} in ~/partita"
    if target.systemd == "none":
        start = "partita/current/bin/partita worker --join partita/member.join"
        start = f"{start} --store partita/store {wanted.flags}".rstrip()
        return Reply(payload, [f"{told}; there is no systemd: start it with {start}"])
    return Reply(payload, [f"{told}, and started by systemd (partita-worker)"])
