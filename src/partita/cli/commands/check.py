"""``partita check``: is the divided network the whole one?"""

from __future__ import annotations

from typing import Annotated

import typer

from partita.cli.flags import (
    MOST_REQUESTS,
    DebugOpt,
    InputsOpt,
    JsonOpt,
    PlanArg,
    PlanClusterOpt,
    PlanFiles,
    PlanModelOpt,
    RequestFlags,
    SeedOpt,
    ShapeOpt,
    from_to,
)
from partita.cli.output import print_reply


def check(
    plan: PlanArg,
    inputs: InputsOpt = None,
    cases: Annotated[
        int,
        typer.Option(
            "--cases", callback=from_to(1, MOST_REQUESTS), help="Inputs to draw when none given."
        ),
    ] = 3,
    seed: SeedOpt = 0,
    model: PlanModelOpt = None,
    cluster: PlanClusterOpt = None,
    shape: ShapeOpt = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Compare divided and whole network at every stage boundary; exit code 4 if they differ."""
    from partita.cli.actions.check import check_division

    files, requests = PlanFiles(plan, model, cluster, shape), RequestFlags(inputs, cases, seed)
    return print_reply(check_division(files, requests), as_json=json)
