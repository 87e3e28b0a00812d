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
        InputError: The credentials are incomplete, or given twice.
        ClusterError: The join file is none, or cannot work.
    """
    tls = read_credentials(flags.authority, flags.certificate, flags.key)
    if flags.join is not None:
        if tls is not None or flags.insecure:
            raise InputError(
                "--join goes with no other credentials: the file has them all. Leave out "
                f"{'--insecure' if flags.insecure else '--authority, --certificate and --key'}.",
                subject="--join",
            )
        read_join(flags.join)  # before work that takes long
    return Access(flags.workers, flags.insecure, tls, flags.join)
