"""``partita compare``: every method on the same profiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import MOST_REQUESTS, flag, number
from partita.cli.output import print_reply


def compare(
    context: typer.Context,
    model: flags.ModelArg,
    cluster: flags.ClusterOpt,
    planners: Annotated[str, flag("--planners", "Names with commas between, or all.")] = "all",
    objective: flags.ObjectiveOpt = "latency",
    budget: flags.BudgetOpt = None,
    seed: flags.SeedOpt = 0,
    in_flight: flags.InFlightOpt = None,
    compress: flags.CompressOpt = None,
    swap: flags.SwapOpt = False,
    settings: flags.SetOpt = None,
    samples: flags.PlanSamplesOpt = None,
    accuracy_drop: flags.DropOpt = None,
    judge: flags.JudgeOpt = None,
    losses: flags.MeasureOpt = None,
    kernels: flags.KernelsOpt = None,
    profile: flags.ProfileOpt = None,
    estimator: flags.EstimatorOpt = "table",
    shape: flags.ShapeOpt = None,
    measure: Annotated[bool, flag("--run", "Also run each plan on the emulated cluster.")] = False,
    requests: Annotated[int, number("--requests", 1, MOST_REQUESTS, "Inputs per run.")] = 5,
    output: Annotated[Path | None, flag("--output", "Chart to write (PNG).", "-o")] = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Run every planner on the same profiles; one table, one chart."""
    from partita.cli.actions.compare import compare_planners, make_options

    if not measure:
        flags.refuse_given(context, ("requests",), "needs --run")
    options = make_options(
        objective, budget, seed, in_flight, settings, compress=compress, swap=swap
    )
    options = replace(options, integer_kernels=kernels == "integer")
    files = flags.ModelFiles(model, cluster, shape, profile, estimator, kernels=kernels)
    runs = requests if measure else 0
    accuracy = flags.AccuracyFlags(samples, accuracy_drop, judge, losses)
    reply = compare_planners(files, planners, options, runs, output, accuracy=accuracy)
    return print_reply(reply, as_json=json)
