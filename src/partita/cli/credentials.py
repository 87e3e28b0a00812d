"""Certificates for commands that join a fabric."""

from __future__ import annotations

import os
from pathlib import Path

from partita.cli.output import say
from partita.errors import InputError
from partita.fabric import TlsOptions
from partita.fabric.join import JoinFile, read_join
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


def read_own_join(path: Path) -> JoinFile:
    """The join file at a path; a warning is told where others than its owner may read its key.

    Raises:
        ClusterError: As :func:`partita.fabric.join.read_join` has it.
    """
    join = read_join(path)
    if (mode := path.stat().st_mode & 0o077) and os.name == "posix":
        say(
            f"warning: join file '{path}' holds a private key, and others may read it"
            f" (mode {mode:03o} beyond its owner's): chmod 600 it"
        )
    return join
