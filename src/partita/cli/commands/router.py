"""``partita router``: join the networks of two sites."""

from __future__ import annotations

from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag, list_given, refuse_given

#: Parameters that a join file answers.
_IN_JOIN_FILES = ("authority", "certificate", "key", "insecure")


def router(
    context: typer.Context,
    listen: Annotated[
        list[str] | None,
        flag("--listen", "Address for workers and other routers; takes two ports."),
    ] = None,
    connect: Annotated[list[str] | None, flag("--connect", "Another site's router.")] = None,
    authority: flags.AuthorityOpt = None,
    certificate: flags.CertificateOpt = None,
    key: flags.KeyOpt = None,
    join: flags.JoinOpt = None,
    insecure: Annotated[
        bool, flag("--insecure", "Listen beyond this machine without credentials.")
    ] = False,
    log_format: flags.LogFormatOpt = flags.LogFormat.TEXT,
    debug: flags.DebugOpt = False,
) -> int:
    """Pass on messages between sites whose workers do not reach each other, until stopped."""
    if join is not None:
        refuse_given(context, _IN_JOIN_FILES, "does not go with --join: the file says it")
    elif not listen:
        raise typer.BadParameter("--listen is missing; or give --join FILE, which says it")
    from partita.cli.actions import worker as action

    options = action.ZenohOptions(
        "router",
        listen=tuple(listen or ()),
        connect=tuple(connect or ()),
        tls=action.read_credentials(authority, certificate, key),
        role="router",
        insecure=insecure,
    )
    if join is not None:
        options = action.join_network(join, options, is_told="listen" in list_given(context))
    action.route(options, join)
    return 0
