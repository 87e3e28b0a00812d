"""``partita check``: is the divided network the whole one?"""

from __future__ import annotations

from typing import Annotated

from partita.cli import flags
from partita.cli.flags import MOST_REQUESTS, number
from partita.cli.output import print_reply


def check(
    plan: flags.PlanArg,
    inputs: flags.InputsOpt = None,
    cases: Annotated[
        int, number("--cases", 1, MOST_REQUESTS, "Inputs to draw when none given.")
    ] = 3,
    seed: flags.SeedOpt = 0,
    model: flags.PlanModelOpt = None,
    cluster: flags.PlanClusterOpt = None,
    shape: flags.ShapeOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Compare divided and whole network at every stage boundary; exit code 4 if they differ."""
    from partita.cli.actions.check import check_division

    files = flags.PlanFiles(plan, model, cluster, shape)
    requests = flags.RequestFlags(inputs, cases, seed)
    return print_reply(check_division(files, requests), as_json=json)
