"""``partita demo``: the main job end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import DebugOpt, JsonOpt, SeedOpt, from_to


def demo(
    seed: SeedOpt = 0,
    plates: Annotated[
        int, typer.Option("--plates", callback=from_to(1, 4), help="Number plates, 1 to 4.")
    ] = 3,
    planner: Annotated[str, typer.Option("--planner", help="Method that divides.")] = "best",
    runs: Annotated[
        int,
        typer.Option("--runs", callback=from_to(1, 10_000), help="Measured runs of each plan."),
    ] = 10,
    report: Annotated[
        Path, typer.Option("--report", help="Folder for photo, report and trace.")
    ] = Path("out"),
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Read number plates with a detector divided over four unequal emulated devices."""
    from partita.cli.actions.demo import DemoOptions, show_demo

    options = DemoOptions(seed=seed, plates=plates, runs=runs, planner=planner)
    return show_demo(options, report, as_json=json)
