"""``partita worker``: be a device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import typer

from partita.cli import flags
from partita.cli.flags import flag, list_given, number, refuse_given
from partita.errors import InputError

#: Parameters that a join file answers.
_IN_JOIN_FILES = ("name", "cluster_name", "authority", "certificate", "key", "insecure")


def worker(
    context: typer.Context,
    name: Annotated[str | None, flag("--name", "The device's name in the cluster file.")] = None,
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
    join: flags.JoinOpt = None,
    insecure: Annotated[
        bool, flag("--insecure", "Listen beyond this machine without credentials.")
    ] = False,
    log_format: flags.LogFormatOpt = flags.LogFormat.TEXT,
    quiet: Annotated[bool, flag("--quiet", "Print nothing but errors.", "-q")] = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Serve as one device until stopped; needs the core installation only."""
    if join is not None:
        refuse_given(context, _IN_JOIN_FILES, "does not go with --join: the file says it")
    elif name is None:
        raise typer.BadParameter("--name is missing; or give --join FILE, which says it")
    from partita.cli.actions import worker as action

    network = action.ZenohOptions(
        name or "",
        cluster_name,
        listen=(listen,),
        connect=tuple(connect or ()),
        multicast=multicast,
        inbound_bytes=action.parse_size("--inbound", inbound),
        max_senders=senders,
        max_calls=calls,
        tls=action.read_credentials(authority, certificate, key),
        role="worker",
        insecure=insecure,
    )
    if join is not None:
        network = action.join_network(join, network, is_told="listen" in list_given(context))
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
        join="" if join is None else str(join),
    )
    action.serve(options, quiet=quiet)
    return 0


def check_flags(words: Sequence[str]) -> None:
    """Refuse what the worker itself would refuse, before anything is copied.

    Raises:
        InputError: Says why.
    """
    from partita.cli.actions.worker import parse_size

    app = typer.Typer(add_completion=False)
    app.command()(worker)
    command = typer.main.get_command(app)
    given = ["--join", "member.join", *words]
    try:
        with command.make_context("worker", given) as context:
            refuse_given(
                cast("typer.Context", context),
                _IN_JOIN_FILES,
                "does not go with --join: the file says it",
            )
            for name in ("quota", "inbound", "memory"):
                if context.params[name]:
                    parse_size(f"--{name}", context.params[name])
    except InputError as error:
        raise InputError(f"--worker-flags: {error.message}", subject="--worker-flags") from None
    except Exception as error:
        if not hasattr(error, "format_message"):  # the parser's own have it
            raise
        told = error.format_message().rstrip(".")
        raise InputError(f"--worker-flags: {told}.", subject="--worker-flags") from None
