"""From flags to a way to reach a cluster's workers."""

from __future__ import annotations

from partita.api import Access
from partita.cli.credentials import read_credentials
from partita.cli.flags import AccessFlags


def read_access(flags: AccessFlags) -> Access:
    """How workers are reached.

    Raises:
        InputError: The credentials are incomplete.
    """
    tls = read_credentials(flags.authority, flags.certificate, flags.key)
    return Access(flags.workers, flags.insecure, tls)
