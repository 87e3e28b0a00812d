"""Certificates for commands that join a fabric."""

from __future__ import annotations

from pathlib import Path

from partita.errors import InputError
from partita.fabric import TlsOptions
from partita.files import require_regular


def read_credentials(
    authority: Path | None, certificate: Path | None, key: Path | None
) -> TlsOptions | None:
    """TLS options from three files; None where none is given.

    Raises:
        InputError: Only some of them are given, or one is no regular file.
    """
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
