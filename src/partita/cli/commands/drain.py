"""``partita drain``: take a device out of the runs that use it, and lose no request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag
from partita.cli.output import print_reply


def drain(
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="Device that is to be free.")],
    cluster: Annotated[Path, flag("--cluster", "Cluster file; says where its worker is.")],
    insecure: flags.InsecureOpt = False,
    authority: flags.AuthorityOpt = None,
    certificate: flags.CertificateOpt = None,
    key: flags.KeyOpt = None,
    join: flags.JoinOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Have running sessions go on without a device; returns once it is free."""
    from partita.cli.actions.drain import drain_device

    access = flags.AccessFlags(True, insecure, authority, certificate, key, join)
    return print_reply(drain_device(device, cluster, access), as_json=json)
