"""``partita doctor``: what this machine can do, and what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import (
    AccessFlags,
    AuthorityOpt,
    CertificateOpt,
    DebugOpt,
    InsecureOpt,
    JsonOpt,
    KeyOpt,
)
from partita.cli.output import print_reply


def doctor(
    cluster: Annotated[
        Path | None, typer.Option("--cluster", help="Also ask this cluster's workers.")
    ] = None,
    insecure: InsecureOpt = False,
    authority: AuthorityOpt = None,
    certificate: CertificateOpt = None,
    key: KeyOpt = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Say what this machine (and cluster) can do, and what is missing."""
    from partita.cli.actions.doctor import describe_health

    workers = []
    if cluster is not None:
        from partita.cli.actions.ask_workers import ask_workers

        access = AccessFlags(True, insecure, authority, certificate, key)
        workers = ask_workers(cluster, access)
    return print_reply(describe_health(workers), as_json=json)
