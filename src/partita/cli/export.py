"""``partita export``: fragments for other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import (
    DebugOpt,
    JsonOpt,
    PlanArg,
    PlanClusterOpt,
    PlanModelOpt,
    ShapeOpt,
)


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("export")
    def export(
        plan: PlanArg,
        output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")],
        model: PlanModelOpt = None,
        cluster: PlanClusterOpt = None,
        shape: ShapeOpt = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Write one ONNX file per fragment, a manifest, and the model stamped with its devices."""
        from partita.cli.output import Reply, print_reply
        from partita.cli.sources import read_plan
        from partita.compile.export import export_plan

        loaded = read_plan(plan, model, cluster, shape)
        written = export_plan(loaded.graph, loaded.plan, loaded.cluster, output)
        payload = {
            "folder": str(output),
            "manifest": str(output / "manifest.json"),
            "model": str(output / "model.onnx"),
            "fragments": [str(path) for path in written],
        }
        lines = [
            f"{len(written)} fragments, manifest.json, and model.onnx with its devices stamped,"
            f" written to {output}"
        ]
        return print_reply(Reply(payload, [*lines]), as_json=json)
