"""``partita demo``: the main job end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import DebugOpt, JsonOpt, SeedOpt, from_to


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("demo")
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
        from partita.cli.output import Reply, check_folder, make_console, print_reply, say
        from partita.demo.result import DemoOptions, describe_demo
        from partita.demo.run import run_demo
        from partita.demo.save import save_demo
        from partita.demo.show import print_demo

        check_folder(report)
        options = DemoOptions(seed=seed, plates=plates, runs=runs, planner=planner)
        result = run_demo(options, say=say)
        files = save_demo(result, report)
        code = 0 if result.is_exact else 4
        if json:
            return print_reply(Reply(describe_demo(result), exit_code=code), as_json=True)
        print_demo(result, make_console(), files)
        return code
