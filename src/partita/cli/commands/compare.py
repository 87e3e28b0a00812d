"""``partita compare``: every method on the same profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import (
    MOST_REQUESTS,
    BudgetOpt,
    ClusterOpt,
    DebugOpt,
    EstimatorOpt,
    InFlightOpt,
    JsonOpt,
    ModelArg,
    ModelFiles,
    ObjectiveOpt,
    ProfileOpt,
    SeedOpt,
    SetOpt,
    ShapeOpt,
    from_to,
)
from partita.cli.output import print_reply


def compare(
    model: ModelArg,
    cluster: ClusterOpt,
    planners: Annotated[
        str, typer.Option("--planners", help="Names with commas between, or all.")
    ] = "all",
    objective: ObjectiveOpt = "latency",
    budget: BudgetOpt = 60.0,
    seed: SeedOpt = 0,
    in_flight: InFlightOpt = None,
    settings: SetOpt = None,
    profile: ProfileOpt = None,
    estimator: EstimatorOpt = "table",
    shape: ShapeOpt = None,
    measure: Annotated[
        bool, typer.Option("--run", help="Also run each plan on the emulated cluster.")
    ] = False,
    requests: Annotated[
        int, typer.Option("--requests", callback=from_to(1, MOST_REQUESTS), help="Inputs per run.")
    ] = 5,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Chart to write (PNG).")
    ] = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Run every planner on the same profiles; one table, one chart."""
    from partita.cli.actions.compare import compare_planners, make_options

    options = make_options(objective, budget, seed, in_flight, settings)
    files = ModelFiles(model, cluster, shape, profile, estimator)
    runs = requests if measure else 0
    return print_reply(compare_planners(files, planners, options, runs, output), as_json=json)
