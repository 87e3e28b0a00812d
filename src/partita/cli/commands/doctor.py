"""``partita doctor``: what this machine can do, and what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from partita.cli import flags
from partita.cli.flags import flag
from partita.cli.output import print_reply


def doctor(
    cluster: Annotated[Path | None, flag("--cluster", "Also ask this cluster's workers.")] = None,
    insecure: flags.InsecureOpt = False,
    authority: flags.AuthorityOpt = None,
    certificate: flags.CertificateOpt = None,
    key: flags.KeyOpt = None,
    join: flags.JoinOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Say what this machine (and cluster) can do, and what is missing."""
    from partita.cli.actions.doctor import Asked, describe_health

    asked = Asked()
    if cluster is not None:
        from partita.cli.actions.ask_workers import ask_workers

        access = flags.AccessFlags(True, insecure, authority, certificate, key, join)
        asked = ask_workers(cluster, access)
    return print_reply(describe_health(asked), as_json=json)
