"""``partita export``: fragments for other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from partita.cli import flags
from partita.cli.flags import flag
from partita.cli.output import print_reply


def export(
    plan: flags.PlanArg,
    output: Annotated[Path, flag("--output", "Folder to write.", "-o")],
    model: flags.PlanModelOpt = None,
    cluster: flags.PlanClusterOpt = None,
    shape: flags.ShapeOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Write one ONNX file per fragment, a manifest, and the model stamped with its devices."""
    from partita.cli.actions.export import export_fragments

    files = flags.PlanFiles(plan, model, cluster, shape)
    return print_reply(export_fragments(files, output), as_json=json)
