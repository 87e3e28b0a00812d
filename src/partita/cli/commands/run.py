"""``partita run``: run a plan on real or emulated workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import MOST_REQUESTS, flag, number, refuse_given
from partita.cli.output import print_reply


def run(
    context: typer.Context,
    plan: flags.PlanArg,
    inputs: flags.InputsOpt = None,
    requests: Annotated[
        int, number("--requests", 1, MOST_REQUESTS, "Inputs to draw when none is given.")
    ] = 10,
    in_flight: flags.InFlightOpt = None,
    model: flags.PlanModelOpt = None,
    cluster: flags.PlanClusterOpt = None,
    profile: flags.ProfileOpt = None,
    estimator: flags.EstimatorOpt = "table",
    shape: flags.ShapeOpt = None,
    workers: flags.WorkersOpt = None,
    insecure: flags.InsecureOpt = False,
    authority: flags.AuthorityOpt = None,
    certificate: flags.CertificateOpt = None,
    key: flags.KeyOpt = None,
    join: flags.JoinOpt = None,
    warm_up: Annotated[
        int, number("--warm-up", 0, MOST_REQUESTS, "Runs before those that count.")
    ] = 1,
    recover: flags.RecoverOpt = False,
    adapt: flags.AdaptOpt = False,
    threshold: flags.ThresholdOpt = 0.25,
    hold: flags.HoldOpt = 3.0,
    planner: flags.ReplannerOpt = "best",
    budget: flags.SearchBudgetOpt = None,
    time_scale: flags.TimeScaleOpt = 1.0,
    check: Annotated[bool, flag("--check", "Compare every answer with the whole model's.")] = False,
    seed: flags.SeedOpt = 0,
    output: Annotated[
        Path | None, flag("--output", "Folder for outputs (.npz per input).", "-o")
    ] = None,
    report: Annotated[
        Path | None, flag("--report", "Folder for the HTML report and the trace.")
    ] = None,
    top: flags.TopOpt = False,
    page: flags.PageOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Run on real or emulated workers; outputs, and measured beside predicted."""
    if not adapt:
        refuse_given(context, ("threshold", "hold"), "needs --adapt")
    if not (adapt or recover):
        refuse_given(context, ("planner", "budget"), "needs --adapt or --recover")
    if inputs:
        refuse_given(context, ("requests",), "does not go with --input: each file is one request")
    from partita.cli.actions.run import RunOptions, run_plan
    from partita.cli.actions.watched import WatchFlags

    reply = run_plan(
        flags.PlanFiles(plan, model, cluster, shape, profile, estimator, time_scale),
        flags.RequestFlags(inputs, requests, seed),
        flags.AccessFlags(workers, insecure, authority, certificate, key, join),
        flags.AdaptFlags(adapt, recover, threshold, hold, planner, budget),
        RunOptions(in_flight, warm_up, check, output, report, WatchFlags(top, page)),
    )
    return print_reply(reply, as_json=json)
