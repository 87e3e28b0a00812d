"""``partita worker``: be a device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from partita.cli import flags
from partita.cli.flags import flag, number


def worker(
    name: Annotated[str, flag("--name", "The device's name in the cluster file.")],
    listen: Annotated[
        str, flag("--listen", "Address for data; control takes the port above.")
    ] = "tcp/127.0.0.1:7447",
    connect: Annotated[list[str] | None, flag("--connect", "Another worker's address.")] = None,
    cluster_name: Annotated[str, flag("--cluster-name", "Name in the cluster file.")] = "lab",
    multicast: Annotated[bool, flag("--multicast", "Find others by multicast.")] = False,
    threads: Annotated[int, number("--threads", 0, 1024, "Per fragment; 0: all cores.")] = 0,
    provider: Annotated[
        list[str] | None, flag("--provider", "Execution provider; the first there is used.")
    ] = None,
    loaders: Annotated[int, number("--loaders", 1, 64, "Fragments to load at once.")] = 1,
    store: Annotated[Path | None, flag("--store", "Folder for content.")] = None,
    quota: Annotated[str, flag("--quota", "Most the store may hold.")] = "4 GB",
    memory: Annotated[
        str, flag("--memory", "Most weights may take; empty: four fifths of all.")
    ] = "",
    plans: Annotated[int, number("--plans", 1, 1024, "Most plans held at once.")] = 32,
    lanes: Annotated[int, number("--lanes", 1, 4096, "Most threads that steps run on.")] = 256,
    calls: Annotated[
        int, number("--calls", 1, 4096, "Most calls answered, or waiting for it, at once.")
    ] = 64,
    senders: Annotated[
        int, number("--senders", 1, 4096, "Most devices whose messages are taken at once.")
    ] = 256,
    inbound: Annotated[
        str, flag("--inbound", "Most that half-received messages may take.")
    ] = "1 GiB",
    slow_down: Annotated[float, number("--slow-down", 1, 10_000, "Emulate a slower device.")] = 1.0,
    endpoint: Annotated[
        str, flag("--endpoint", "URL of a model that computes this device's part.")
    ] = "",
    authority: flags.AuthorityOpt = None,
    certificate: flags.CertificateOpt = None,
    key: flags.KeyOpt = None,
    insecure: Annotated[
        bool, flag("--insecure", "Listen beyond this machine without credentials.")
    ] = False,
    quiet: Annotated[bool, flag("--quiet", "Print nothing but errors.", "-q")] = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Serve as one device until stopped; needs the core installation only."""
    from partita.cli.actions import worker as action

    network = action.ZenohOptions(
        name,
        cluster_name,
        listen=(listen,),
        connect=tuple(connect or ()),
        multicast=multicast,
        inbound_bytes=action.parse_size("--inbound", inbound),
        max_senders=senders,
        max_calls=calls,
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
        max_plans=plans,
        max_lanes=lanes,
        slow_down=slow_down,
        endpoint=endpoint,
    )
    action.serve(options, quiet=quiet)
    return 0
