"""``partita router``: join the networks of two sites."""

from __future__ import annotations

from typing import Annotated

from partita.cli import flags
from partita.cli.flags import flag


def router(
    listen: Annotated[
        list[str], flag("--listen", "Address for workers and other routers; takes two ports.")
    ],
    connect: Annotated[list[str] | None, flag("--connect", "Another site's router.")] = None,
    authority: flags.AuthorityOpt = None,
    certificate: flags.CertificateOpt = None,
    key: flags.KeyOpt = None,
    insecure: Annotated[
        bool, flag("--insecure", "Listen beyond this machine without credentials.")
    ] = False,
    log_format: flags.LogFormatOpt = flags.LogFormat.TEXT,
    debug: flags.DebugOpt = False,
) -> int:
    """Pass on messages between sites whose workers do not reach each other, until stopped."""
    from partita.cli.actions import worker as action

    options = action.ZenohOptions(
        "router",
        listen=tuple(listen),
        connect=tuple(connect or ()),
        tls=action.read_credentials(authority, certificate, key),
        insecure=insecure,
    )
    action.route(options)
    return 0
