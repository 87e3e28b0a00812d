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
    PlanFiles,
    PlanModelOpt,
    ShapeOpt,
)
from partita.cli.output import print_reply


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
    from partita.cli.actions.export import export_fragments

    files = PlanFiles(plan, model, cluster, shape)
    return print_reply(export_fragments(files, output), as_json=json)
