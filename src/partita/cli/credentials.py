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
    given = {"--authority": authority, "--certificate": certificate, "--key": key}
    if missing := [flag for flag, path in given.items() if path is None]:
        raise InputError(
            "Credentials need --authority, --certificate and --key, three files; "
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not given.",
            subject=missing[0],
        )
    for flag, path in given.items():
        try:
            require_regular(path or Path())
        except OSError as error:
            raise InputError(
                f"{flag} '{path}' cannot be used: {error.strerror}. Credentials need --authority, "
                "--certificate and --key, three files.",
                subject=flag,
            ) from None
    return TlsOptions(str(authority), str(certificate), str(key))
