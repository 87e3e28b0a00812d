"""``partita top``: look at a running plan from another shell."""

from __future__ import annotations

from typing import Annotated

from partita.cli import flags
from partita.cli.flags import flag


def top(
    cluster: flags.ClusterOpt,
    leader: Annotated[
        str | None, flag("--leader", "Whose plan, or which one by its title or model.")
    ] = None,
    once: Annotated[bool, flag("--once", "Print what is seen within a second, and end.")] = False,
    insecure: flags.InsecureOpt = False,
    authority: flags.AuthorityOpt = None,
    certificate: flags.CertificateOpt = None,
    key: flags.KeyOpt = None,
    join: flags.JoinOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Show what a plan's devices and links do while it runs elsewhere, until Ctrl-C."""
    from partita.cli.actions.top import show_top

    access = flags.AccessFlags(True, insecure, authority, certificate, key, join)
    return show_top(cluster, access, leader, once=once, as_json=json)
