"""``partita worker``: be a device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import AuthorityOpt, CertificateOpt, DebugOpt, KeyOpt, from_to


def worker(
    name: Annotated[str, typer.Option("--name", help="The device's name in the cluster file.")],
    listen: Annotated[
        str, typer.Option("--listen", help="Address for data; control takes the port above.")
    ] = "tcp/127.0.0.1:7447",
    connect: Annotated[
        list[str] | None, typer.Option("--connect", help="Another worker's address.")
    ] = None,
    cluster_name: Annotated[
        str, typer.Option("--cluster-name", help="Name in the cluster file.")
    ] = "lab",
    multicast: Annotated[
        bool, typer.Option("--multicast", help="Find others by multicast.")
    ] = False,
    threads: Annotated[
        int,
        typer.Option("--threads", callback=from_to(0, 1024), help="Per fragment; 0: all cores."),
    ] = 0,
    provider: Annotated[
        list[str] | None,
        typer.Option("--provider", help="Execution provider; the first there is used."),
    ] = None,
    loaders: Annotated[
        int, typer.Option("--loaders", callback=from_to(1, 64), help="Fragments to load at once.")
    ] = 1,
    store: Annotated[Path | None, typer.Option("--store", help="Folder for content.")] = None,
    quota: Annotated[str, typer.Option("--quota", help="Most the store may hold.")] = "4 GB",
    memory: Annotated[
        str, typer.Option("--memory", help="Most weights may take; empty: four fifths of all.")
    ] = "",
    slow_down: Annotated[
        float,
        typer.Option("--slow-down", callback=from_to(1, 10_000), help="Emulate a slower device."),
    ] = 1.0,
    authority: AuthorityOpt = None,
    certificate: CertificateOpt = None,
    key: KeyOpt = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine without credentials.")
    ] = False,
    debug: DebugOpt = False,
) -> int:
    """Serve as one device until stopped; needs the core installation only."""
    from partita.cli.actions import worker as action

    network = action.ZenohOptions(
        name,
        cluster_name,
        listen=(listen,),
        connect=tuple(connect or ()),
        multicast=multicast,
        tls=action.read_credentials(authority, certificate, key),
        insecure=insecure,
    )
    action.check_providers(provider or ())
    options = action.WorkerOptions(
        network,
        store=str(store) if store else "",
        quota_bytes=action.parse_size("--quota", quota),
        memory_limit_bytes=action.parse_size("--memory", memory) if memory else 0,
        threads=threads,
        providers=tuple(provider) if provider else ("CPUExecutionProvider",),
        loaders=loaders,
        slow_down=slow_down,
    )
    action.serve(options)
    return 0
