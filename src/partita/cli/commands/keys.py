"""``partita keys``: who may join a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag, number
from partita.cli.output import print_reply

keys = typer.Typer(
    name="keys",
    help="Who may join a cluster: an authority, and a join file for each host.",
    rich_markup_mode=None,
)

SiteOpt = Annotated[Path, flag("--site", "Folder from 'partita keys init'.")]
NameArg = Annotated[str, typer.Argument(metavar="NAME", help="A member's name.")]


@keys.command("init")
def init(
    site: Annotated[Path, typer.Argument(metavar="SITE", help="Folder to make; keep it safe.")],
    cluster: flags.ClusterOpt,
    days: Annotated[int, number("--days", 1, 7300, "Certificates are valid so long.")] = 365,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Make an authority, and join files for a cluster's devices, a leader and a front."""
    from partita.cli.actions import keys as action

    return print_reply(action.init(site, cluster, days), as_json=json)


@keys.command("add")
def add(
    name: NameArg,
    site: SiteOpt = Path("site"),
    role: Annotated[str, flag("--role", "worker, leader, front or router.")] = "worker",
    address: Annotated[
        str, flag("--address", "Where a worker listens, such as tls/192.0.2.9:7447.")
    ] = "",
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Let one more in; the others take note with their new files."""
    from partita.cli.actions import keys as action

    return print_reply(action.add(site, name, role, address), as_json=json)


@keys.command("revoke")
def revoke(
    name: NameArg,
    site: SiteOpt = Path("site"),
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Let one in no more; the others take note with their new files."""
    from partita.cli.actions import keys as action

    return print_reply(action.revoke(site, name), as_json=json)


@keys.command("rotate")
def rotate(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Whose; all by default.")
    ] = None,
    site: SiteOpt = Path("site"),
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """New keys and certificates, before the old ones expire; both work until then."""
    from partita.cli.actions import keys as action

    return print_reply(action.rotate(site, names or []), as_json=json)


@keys.command("show")
def show(
    site: SiteOpt = Path("site"), json: flags.JsonOpt = False, debug: flags.DebugOpt = False
) -> int:
    """Who is in, as what and until when, and who is in no more."""
    from partita.cli.actions import keys as action

    return print_reply(action.show(site), as_json=json)
