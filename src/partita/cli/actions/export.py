"""Fragments for other engines."""

from __future__ import annotations

from pathlib import Path

from partita.cli.flags import PlanFiles
from partita.cli.output import Reply, check_folder
from partita.cli.sources import read_plan
from partita.compile.export import export_plan
from partita.units import format_bytes


def export_fragments(files: PlanFiles, folder: Path) -> Reply:
    """Write the plan's fragments, manifest and stamped model into the folder."""
    check_folder(folder, is_replaced=True)
    loaded = read_plan(files)
    written = export_plan(loaded.graph, loaded.plan, loaded.cluster, folder)
    payload = {
        "folder": str(folder),
        "manifest": str(folder / "manifest.json"),
        "model": str(folder / "model.onnx"),
        "fragments": [str(path) for path in written],
    }
    lines = [f"{path.name}: {format_bytes(path.stat().st_size)}" for path in written]
    lines.append(
        f"{len(written)} fragments, manifest.json, and model.onnx with its devices stamped,"
        f" written to {folder}"
    )
    return Reply(payload, [*lines])
