"""``partita profile``: measure this machine, or a cluster's workers and links."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag, number
from partita.cli.output import check_output, print_reply
from partita.errors import InputError


def profile(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="ONNX file; not with --links.")
    ] = None,
    output: Annotated[Path | None, flag("--output", "File to write.", "-o")] = None,
    links: Annotated[bool, flag("--links", "Measure the links of --cluster alone.")] = False,
    cluster: Annotated[
        Path | None,
        flag("--cluster", "Cluster file: measure its workers and links, not this machine."),
    ] = None,
    workers: flags.WorkersOpt = None,
    insecure: flags.InsecureOpt = False,
    authority: flags.AuthorityOpt = None,
    certificate: flags.CertificateOpt = None,
    key: flags.KeyOpt = None,
    join: flags.JoinOpt = None,
    device: Annotated[str, flag("--device", "Name for it.")] = "this-machine",
    threads: Annotated[int, number("--threads", 1, 1024, "Threads per operator.")] = 1,
    provider: Annotated[
        str, flag("--provider", "ONNX Runtime's execution provider.")
    ] = "CPUExecutionProvider",
    rows: Annotated[str, flag("--rows", "few extents per layer, or all of them.")] = "few",
    repeats: Annotated[int, number("--repeats", 1, 10**6, "Most runs per fragment.")] = 15,
    kernels: Annotated[
        str, flag("--kernels", "float, or integer: layers with 8 bits are measured, too.")
    ] = "float",
    shape: flags.ShapeOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Measure seconds per layer at several extents, with count and spread; can be resumed."""
    access = flags.AccessFlags(workers, insecure, authority, certificate, key, join)
    if links:
        from partita.cli.actions.links import profile_links

        return print_reply(profile_links(cluster, output, access), as_json=json)
    if model is None or output is None:
        raise InputError("Give MODEL and -o FILE, or --links with --cluster FILE.")
    check_output(output, model)
    if rows not in ("few", "all"):
        raise InputError(f"--rows is '{rows}', allowed: few, all.", subject="--rows")
    if kernels not in ("float", "integer"):
        raise InputError(f"--kernels is '{kernels}', allowed: float, integer.", subject="--kernels")
    from partita.cli.actions.profile import MeasureOptions, profile_model

    options = MeasureOptions(
        device=device,
        threads=threads,
        provider=provider,
        rows="few" if rows == "few" else "all",
        repeats=repeats,
        budget_s=0.6 if rows == "few" else 1e9,
        integer=kernels == "integer",
        unfinished=output.with_name(output.name + ".unfinished"),
    )
    if cluster is None:
        return print_reply(profile_model(model, shape, output, options), as_json=json)
    for name, value, usual in (
        ("--device", device, "this-machine"),
        ("--threads", threads, 1),
        ("--provider", provider, "CPUExecutionProvider"),
    ):
        if value != usual:
            raise InputError(
                f"{name} does not go with --cluster: names are the cluster file's, threads and"
                " providers the workers' own.",
                subject=name,
            )
    from partita.cli.actions.profile_cluster import profile_cluster
    from partita.cli.sources import read_graph

    reply = profile_cluster(read_graph(model, shape), cluster, output, (options, access))
    return print_reply(reply, as_json=json)
