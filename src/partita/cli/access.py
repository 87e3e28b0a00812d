"""From flags to a way to reach a cluster's workers."""

from __future__ import annotations

from partita.api import Access, find_way
from partita.cli.credentials import read_credentials, read_own_join
from partita.cli.flags import AccessFlags
from partita.cli.output import say
from partita.cluster import Cluster
from partita.errors import ClusterError, InputError


def read_access(flags: AccessFlags, *, leads: bool = False) -> Access:
    """How workers are reached.

    Args:
        leads: Whether workers are given orders, which fronts may not.

    Raises:
        InputError: The credentials are incomplete, or given twice, or flags contradict each other.
        ClusterError: The join file is none, cannot work, or is not a leader's where that is needed.
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
        own = read_own_join(join).member  # before work that takes long
        if leads and own.role != "leader":
            raise ClusterError(
                f"Join file '{join}' is a {own.role}'s, {own.name!r}; needed is a leader's.",
                subject=str(join),
            )
    return Access(
        flags.workers, flags.insecure, tls, join, on_ray=bool(flags.engine), site=flags.site
    )


def is_emulated(cluster: Cluster, access: Access) -> bool:
    """Whether the cluster's devices are processes on this machine, of a lab for this command.

    Raises:
        ClusterError: The join file cannot work.
    """
    return not access.on_ray and find_way(cluster, access) is None


def say_where(cluster: Cluster, access: Access) -> None:
    """Say that devices are emulated here, where neither their file nor a flag says where they are.

    Raises:
        ClusterError: The join file cannot work.
    """
    if access.workers is None and is_emulated(cluster, access):
        say(f"cluster '{cluster.name}' has no addresses: its devices are emulated on this machine")


def check_engine(flags: AccessFlags) -> None:
    """Refuse flags that say wrongly who is to place workers.

    Raises:
        InputError: Names the flag.
    """
    check_engine_name(flags.engine)
    if flags.engine and flags.workers is False:
        raise InputError("--on and --lab contradict each other.", subject="--on")
    if flags.site and not flags.engine:
        raise InputError(
            "--site needs --on: other workers have their join files.", subject="--site"
        )
    if flags.site and flags.insecure:
        raise InputError("--site and --insecure contradict each other.", subject="--insecure")


def check_engine_name(engine: str | None) -> None:
    """Refuse what is no engine that processes can be started by.

    Raises:
        InputError: Names the flag.
    """
    if engine not in (None, "ray"):
        raise InputError(f"--on is '{engine}', allowed: ray.", subject="--on")
