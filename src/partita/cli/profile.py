"""``partita profile``: measure this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from partita.cli.credentials import read_access
from partita.cli.flags import (
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


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("profile")
    def profile(
        model: Annotated[
            Path | None, typer.Argument(metavar="[MODEL]", help="ONNX file; not with --links.")
        ] = None,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", help="File to write.")
        ] = None,
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
            int,
            typer.Option("--repeats", callback=from_to(1, 10**6), help="Most runs per fragment."),
        ] = 15,
        shape: ShapeOpt = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Measure seconds per layer at several extents, with count and spread; can be resumed."""
        from partita.cli.output import check_output, print_reply
        from partita.errors import InputError
        from partita.profile import MeasureOptions

        if links:
            from partita.cli.links import profile_links

            access = read_access(
                None, insecure, authority=authority, certificate=certificate, key=key
            )
            return print_reply(profile_links(cluster, output, access), as_json=json)
        if model is None or output is None:
            raise InputError("Give MODEL and -o FILE, or --links with --cluster FILE.")
        check_output(output, model)
        chosen = _check_rows(rows)
        options = MeasureOptions(
            device=device,
            threads=threads,
            provider=provider,
            rows=chosen,
            repeats=repeats,
            budget_s=0.6 if chosen == "few" else 1e9,
            unfinished=output.with_name(output.name + ".unfinished"),
        )
        return print_reply(profile_model(model, shape, output, options), as_json=json)


def _check_rows(rows: str) -> Literal["few", "all"]:
    from partita.errors import InputError

    if rows == "few" or rows == "all":
        return rows  # type: ignore[return-value]
    raise InputError(f"--rows is '{rows}', allowed: few, all.", subject="--rows")


def profile_model(model: Path, shape: list[str] | None, output: Path, options: Any) -> Any:
    """Measure, write the file, and return the reply."""
    from partita.cli.output import Reply, progress_bar
    from partita.cli.sources import read_graph
    from partita.profile import measure_profile, save_profile
    from partita.units import format_seconds

    graph = read_graph(model, shape)
    with progress_bar("profiling") as advance:
        profile = measure_profile(graph, options, advance)
    save_profile(profile, output)
    whole_s = sum(_longest_s(layer) for layer in profile.layers.values())
    payload = {
        "device": profile.device,
        "model": profile.model,
        "model_hash": profile.model_hash,
        "engine": profile.engine,
        "threads": profile.threads,
        "layers": len(profile.layers),
        "samples": sum(len(layer.samples) for layer in profile.layers.values()),
        "sum_of_layers_s": whole_s,
        "file": str(output),
    }
    lines = [
        f"{payload['layers']} layers, {payload['samples']} extents measured on {profile.engine},"
        f" {profile.threads} thread(s)",
        f"Sum of whole layers: {format_seconds(whole_s)}",
        f"Written to {output}",
    ]
    return Reply(payload, [*lines])


def _longest_s(layer: Any) -> float:
    return max((sample.seconds for sample in layer.samples), default=0.0)
