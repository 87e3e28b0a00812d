"""From flags to a way to reach a cluster's workers."""

from __future__ import annotations

from partita.api import Access
from partita.cli.credentials import read_credentials
from partita.cli.flags import AccessFlags
from partita.errors import InputError
from partita.fabric.join import read_join


def read_access(flags: AccessFlags) -> Access:
    """How workers are reached.

    Raises:
        InputError: The credentials are incomplete, or given twice, or flags contradict each other.
        ClusterError: The join file is none, or cannot work.
    """
    check_engine(flags)
    tls = read_credentials(flags.authority, flags.certificate, flags.key)
    join = flags.join
    if join is None and flags.site is not None:
        join = flags.site / "leader.join"
    if join is not None:
        if tls is not None or flags.insecure:
            raise InputError(
                "--join goes with no other credentials: the file has them all. Leave out "
                f"{'--insecure' if flags.insecure else '--authority, --certificate and --key'}.",
                subject="--join",
            )
        read_join(join)  # before work that takes long
    return Access(
        flags.workers, flags.insecure, tls, join, on_ray=bool(flags.engine), site=flags.site
    )


def check_engine(flags: AccessFlags) -> None:
    """Refuse flags that say wrongly who is to place workers.

    Raises:
        InputError: Names the flag.
    """
    if flags.engine not in (None, "ray"):
        raise InputError(f"--on is '{flags.engine}', allowed: ray.", subject="--on")
    if flags.engine and flags.workers is False:
        raise InputError("--on and --lab contradict each other.", subject="--on")
    if flags.site and not flags.engine:
        raise InputError(
            "--site needs --on: other workers have their join files.", subject="--site"
        )
    if flags.site and flags.insecure:
        raise InputError("--site and --insecure contradict each other.", subject="--insecure")
