"""``partita install-worker``: a worker on another machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.commands.worker import check_flags
from partita.cli.flags import flag
from partita.cli.output import print_reply


def install_worker(
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="As ssh knows it, such as pi@192.0.2.7.")
    ],
    join: Annotated[Path, flag("--join", "The worker's join file from 'partita keys'.")],
    wheel: Annotated[
        Path | None, flag("--wheel", "Partita's wheel; made of what is installed by default.")
    ] = None,
    ssh_option: Annotated[
        list[str] | None, flag("--ssh-option", "Option of ssh and scp, such as Port=2222.")
    ] = None,
    worker_flags: Annotated[
        str, flag("--worker-flags", "More flags of 'partita worker', in one text.")
    ] = "",
    dry_run: Annotated[
        bool, flag("--dry-run", "Only look at the host, and print the steps.")
    ] = False,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Install a worker over ssh on a machine that needs no internet, and start it."""
    from partita.cli.actions import install_worker as action

    wanted = action.read_wanted(join, wheel, worker_flags)
    check_flags(shlex.split(worker_flags))
    reply = action.install_on(host, tuple(ssh_option or ()), wanted, is_dry=dry_run)
    return print_reply(reply, as_json=json)
