"""Certificates for commands that join a fabric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partita.api import Access
    from partita.fabric import TlsOptions


def read_credentials(
    authority: Path | None, certificate: Path | None, key: Path | None
) -> TlsOptions | None:
    """Return TLS options from three files, or None where none is given.

    Raises:
        InputError: Only some of them are given, or one is no regular file.
    """
    from partita.errors import InputError
    from partita.fabric import TlsOptions
    from partita.files import require_regular

    if authority is None and certificate is None and key is None:
        return None
    for path in (authority, certificate, key):
        try:
            require_regular(path or Path())
        except OSError as error:
            why = "nothing" if path is None else f"'{path}' ({error.strerror})"
            raise InputError(
                f"Credentials need --authority, --certificate and --key, three files; got {why}.",
                subject="--certificate",
            ) from None
    return TlsOptions(str(authority), str(certificate), str(key))


def read_access(
    workers: bool | None,
    insecure: bool,
    *,
    authority: Path | None,
    certificate: Path | None,
    key: Path | None,
) -> Access:
    """Return how workers are reached, from flags."""
    from partita.api import Access

    return Access(workers, insecure, read_credentials(authority, certificate, key))
