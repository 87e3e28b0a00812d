"""``partita simulate``: predict a plan's run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import (
    MOST_REQUESTS,
    MOST_SECONDS,
    AdaptFlags,
    AdaptOpt,
    DebugOpt,
    EstimatorOpt,
    HoldOpt,
    InFlightOpt,
    JsonOpt,
    PlanArg,
    PlanClusterOpt,
    PlanFiles,
    PlanModelOpt,
    ProfileOpt,
    ReplannerOpt,
    SearchBudgetOpt,
    ShapeOpt,
    ThresholdOpt,
    TimeScaleOpt,
    from_to,
    refuse_given,
)
from partita.cli.output import print_reply


def simulate(
    context: typer.Context,
    plan: PlanArg,
    requests: Annotated[
        int, typer.Option("--requests", callback=from_to(1, MOST_REQUESTS), help="Inputs to feed.")
    ] = 1,
    in_flight: InFlightOpt = None,
    model: PlanModelOpt = None,
    cluster: PlanClusterOpt = None,
    profile: ProfileOpt = None,
    estimator: EstimatorOpt = "table",
    shape: ShapeOpt = None,
    adapt: AdaptOpt = False,
    duration: Annotated[
        float,
        typer.Option(
            "--duration",
            callback=from_to(1e-3, MOST_SECONDS),
            help="With --adapt: seconds that inputs come.",
        ),
    ] = 60.0,
    interval: Annotated[
        float,
        typer.Option(
            "--interval",
            callback=from_to(0, MOST_SECONDS),
            help="With --adapt: from one input to the next; 0 at once.",
        ),
    ] = 0.0,
    search_time: Annotated[
        float | None,
        typer.Option(
            "--search-time",
            callback=from_to(0, MOST_SECONDS),
            help="With --adapt: what a search is charged.",
        ),
    ] = None,
    threshold: ThresholdOpt = 0.25,
    hold: HoldOpt = 3.0,
    planner: ReplannerOpt = "best",
    budget: SearchBudgetOpt = 60.0,
    time_scale: TimeScaleOpt = 1.0,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Timeline to write, for Perfetto.")
    ] = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Predict latency, throughput, busy times and memory on a virtual clock."""
    only_adaptive = ("duration", "interval", "search_time", "threshold", "hold", "planner")
    if adapt:
        refuse_given(context, ("requests", "in_flight", "trace"), "does not go with --adapt")
    else:
        refuse_given(context, (*only_adaptive, "budget"), "needs --adapt")
    from partita.cli.actions.simulate import LongRun, simulate_long_run, simulate_plan

    files = PlanFiles(plan, model, cluster, shape, profile, estimator, time_scale)
    if not adapt:
        return print_reply(simulate_plan(files, requests, in_flight, trace), as_json=json)
    flags = AdaptFlags(threshold, hold, planner, budget)
    run = LongRun(duration, interval, search_time)
    return print_reply(simulate_long_run(files, flags, run), as_json=json)
