"""``partita profile``: measure this machine, or a cluster's links."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import (
    AccessFlags,
    AuthorityOpt,
    CertificateOpt,
    DebugOpt,
    InsecureOpt,
    JsonOpt,
    KeyOpt,
    PlanClusterOpt,
    ShapeOpt,
    from_to,
)
from partita.cli.output import check_output, print_reply
from partita.errors import InputError


def profile(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="ONNX file; not with --links.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write.")] = None,
    links: Annotated[
        bool, typer.Option("--links", help="Measure the links of --cluster instead.")
    ] = False,
    cluster: PlanClusterOpt = None,
    insecure: InsecureOpt = False,
    authority: AuthorityOpt = None,
    certificate: CertificateOpt = None,
    key: KeyOpt = None,
    device: Annotated[str, typer.Option("--device", help="Name for it.")] = "this-machine",
    threads: Annotated[
        int, typer.Option("--threads", callback=from_to(1, 1024), help="Threads per operator.")
    ] = 1,
    provider: Annotated[
        str, typer.Option("--provider", help="ONNX Runtime's execution provider.")
    ] = "CPUExecutionProvider",
    rows: Annotated[
        str, typer.Option("--rows", help="few extents per layer, or all of them.")
    ] = "few",
    repeats: Annotated[
        int, typer.Option("--repeats", callback=from_to(1, 10**6), help="Most runs per fragment.")
    ] = 15,
    shape: ShapeOpt = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Measure seconds per layer at several extents, with count and spread; can be resumed."""
    if links:
        from partita.cli.actions.links import profile_links

        access = AccessFlags(None, insecure, authority, certificate, key)
        return print_reply(profile_links(cluster, output, access), as_json=json)
    if model is None or output is None:
        raise InputError("Give MODEL and -o FILE, or --links with --cluster FILE.")
    check_output(output, model)
    if rows not in ("few", "all"):
        raise InputError(f"--rows is '{rows}', allowed: few, all.", subject="--rows")
    from partita.cli.actions.profile import MeasureOptions, profile_model

    options = MeasureOptions(
        device=device,
        threads=threads,
        provider=provider,
        rows="few" if rows == "few" else "all",
        repeats=repeats,
        budget_s=0.6 if rows == "few" else 1e9,
        unfinished=output.with_name(output.name + ".unfinished"),
    )
    return print_reply(profile_model(model, shape, output, options), as_json=json)
