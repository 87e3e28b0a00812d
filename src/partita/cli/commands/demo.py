"""``partita demo``: the main job end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from partita.cli import flags
from partita.cli.flags import flag, number


def demo(
    seed: flags.SeedOpt = 0,
    plates: Annotated[int, number("--plates", 1, 4, "Number plates, 1 to 4.")] = 3,
    planner: Annotated[str, flag("--planner", "Method that divides.")] = "best",
    runs: Annotated[int, number("--runs", 1, 10_000, "Measured runs of each plan.")] = 10,
    report: Annotated[Path, flag("--report", "Folder for photo, report and trace.")] = Path("out"),
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Read number plates with a detector divided over four unequal emulated devices."""
    from partita.cli.actions.demo import DemoOptions, show_demo

    options = DemoOptions(seed=seed, plates=plates, runs=runs, planner=planner)
    return show_demo(options, report, as_json=json)
