"""``partita lab``: unequal devices on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag, number, refuse_given
from partita.cli.output import Reply, check_output, print_reply, write_output
from partita.errors import InputError

EXAMPLE = Path(__file__).with_name("example.toml")


def lab(
    context: typer.Context,
    cluster: Annotated[
        Path | None, typer.Argument(metavar="[CLUSTER]", help="Cluster file (TOML).")
    ] = None,
    network: Annotated[
        str, flag("--network", "user, or netns (root); the file's by default.")
    ] = "",
    restart: Annotated[
        float | None,
        number("--restart", 0, 3600, "Start workers that end again after so many seconds."),
    ] = None,
    output: Annotated[
        Path | None, flag("--output", "Cluster file to write, with the addresses.", "-o")
    ] = None,
    time_scale: flags.TimeScaleOpt = 1.0,
    on: flags.OnOpt = None,
    site: flags.SiteOpt = None,
    insecure: Annotated[
        bool, flag("--insecure", "With --on: let workers listen without credentials.")
    ] = False,
    example: Annotated[
        Path | None, flag("--example", "Write an example cluster file and stop.")
    ] = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Emulate a cluster: one worker per device with its slow-down and links, until Ctrl-C."""
    if example is not None:
        write_output(example, EXAMPLE.read_bytes())
        return print_reply(Reply({"file": str(example)}, [f"Written to {example}"]), as_json=json)
    if cluster is None:
        raise InputError("Give a cluster file, or --example FILE to write one.")
    if network not in ("", "user", "netns"):
        raise InputError(f"--network is '{network}', allowed: user, netns.", subject="--network")
    check_output(output, cluster)
    if on is None:
        refuse_given(context, ("site", "insecure"), "needs --on")
        from partita.cli.actions.lab import HoldOptions, hold_lab

        options = HoldOptions(time_scale, network, restart)
        return hold_lab(cluster, options, output, as_json=json)
    refuse_given(context, ("network", "time_scale", "restart"), "does not go with --on")
    from partita.cli.actions.lab import hold_on_ray

    access = flags.AccessFlags(True, insecure, None, None, None, engine=on, site=site)
    return hold_on_ray(cluster, output, access, as_json=json)
