"""``partita simulate``: predict a plan's run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import MOST_REQUESTS, MOST_SECONDS, flag, number, refuse_given
from partita.cli.output import print_reply


def simulate(
    context: typer.Context,
    plan: flags.PlanArg,
    requests: Annotated[int, number("--requests", 1, MOST_REQUESTS, "Inputs to feed.")] = 1,
    in_flight: flags.InFlightOpt = None,
    model: flags.PlanModelOpt = None,
    cluster: flags.PlanClusterOpt = None,
    profile: flags.ProfileOpt = None,
    estimator: flags.EstimatorOpt = "table",
    shape: flags.ShapeOpt = None,
    adapt: flags.AdaptOpt = False,
    duration: Annotated[
        float, number("--duration", 1e-3, MOST_SECONDS, "With --adapt: seconds that inputs come.")
    ] = 60.0,
    interval: Annotated[
        float,
        number(
            "--interval", 0, MOST_SECONDS, "With --adapt: from one input to the next; 0 at once."
        ),
    ] = 0.0,
    search_time: Annotated[
        float | None,
        number("--search-time", 0, MOST_SECONDS, "With --adapt: what a search is charged."),
    ] = None,
    threshold: flags.ThresholdOpt = 0.25,
    hold: flags.HoldOpt = 3.0,
    planner: flags.ReplannerOpt = "best",
    budget: flags.SearchBudgetOpt = None,
    time_scale: flags.TimeScaleOpt = 1.0,
    trace: Annotated[Path | None, flag("--trace", "Timeline to write, for Perfetto.")] = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Predict latency, throughput, busy times and memory on a virtual clock."""
    only_adaptive = ("duration", "interval", "search_time", "threshold", "hold", "planner")
    if adapt:
        refuse_given(context, ("requests", "in_flight", "trace"), "does not go with --adapt")
    else:
        refuse_given(context, (*only_adaptive, "budget"), "needs --adapt")
    from partita.cli.actions.simulate import LongRun, simulate_long_run, simulate_plan

    files = flags.PlanFiles(plan, model, cluster, shape, profile, estimator, time_scale)
    if not adapt:
        return print_reply(simulate_plan(files, requests, in_flight, trace), as_json=json)
    adapting = flags.AdaptFlags(adapt, False, threshold, hold, planner, budget)
    times = LongRun(duration, interval, search_time)
    return print_reply(simulate_long_run(files, adapting, times), as_json=json)
