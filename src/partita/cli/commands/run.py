"""``partita run``: run a plan on real or emulated workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import (
    MOST_REQUESTS,
    AccessFlags,
    AdaptFlags,
    AdaptOpt,
    AuthorityOpt,
    CertificateOpt,
    DebugOpt,
    EstimatorOpt,
    HoldOpt,
    InFlightOpt,
    InputsOpt,
    InsecureOpt,
    JsonOpt,
    KeyOpt,
    PlanArg,
    PlanClusterOpt,
    PlanFiles,
    PlanModelOpt,
    ProfileOpt,
    ReplannerOpt,
    RequestFlags,
    SearchBudgetOpt,
    SeedOpt,
    ShapeOpt,
    ThresholdOpt,
    TimeScaleOpt,
    from_to,
    refuse_given,
)
from partita.cli.output import print_reply


def run(
    context: typer.Context,
    plan: PlanArg,
    inputs: InputsOpt = None,
    requests: Annotated[
        int,
        typer.Option(
            "--requests",
            callback=from_to(1, MOST_REQUESTS),
            help="Inputs to draw when none is given.",
        ),
    ] = 10,
    in_flight: InFlightOpt = None,
    model: PlanModelOpt = None,
    cluster: PlanClusterOpt = None,
    profile: ProfileOpt = None,
    estimator: EstimatorOpt = "table",
    shape: ShapeOpt = None,
    workers: Annotated[
        bool | None,
        typer.Option(
            "--workers/--lab",
            help="Use running workers, or emulate the cluster here. By default workers where"
            " the cluster file gives addresses.",
        ),
    ] = None,
    insecure: InsecureOpt = False,
    authority: AuthorityOpt = None,
    certificate: CertificateOpt = None,
    key: KeyOpt = None,
    warm_up: Annotated[
        int,
        typer.Option(
            "--warm-up", callback=from_to(0, MOST_REQUESTS), help="Runs before those that count."
        ),
    ] = 1,
    recover: Annotated[
        bool, typer.Option("--recover", help="Plan again on the rest when a device is lost.")
    ] = False,
    adapt: AdaptOpt = False,
    threshold: ThresholdOpt = 0.25,
    hold: HoldOpt = 3.0,
    planner: ReplannerOpt = "best",
    budget: SearchBudgetOpt = 60.0,
    time_scale: TimeScaleOpt = 1.0,
    check: Annotated[
        bool, typer.Option("--check", help="Compare every answer with the whole model's.")
    ] = False,
    seed: SeedOpt = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for outputs (.npz per input).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Folder for the HTML report and the trace.")
    ] = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Run on real or emulated workers; outputs, and measured beside predicted."""
    if not adapt:
        refuse_given(context, ("threshold", "hold"), "needs --adapt")
    if not (adapt or recover):
        refuse_given(context, ("planner", "budget"), "needs --adapt or --recover")
    if inputs:
        refuse_given(context, ("requests",), "does not go with --input: each file is one request")
    from partita.cli.actions.run import Replanning, RunOptions, run_plan

    reply = run_plan(
        PlanFiles(plan, model, cluster, shape, profile, estimator, time_scale),
        RequestFlags(inputs, requests, seed),
        AccessFlags(workers, insecure, authority, certificate, key),
        Replanning(recover, adapt, AdaptFlags(threshold, hold, planner, budget)),
        RunOptions(in_flight, warm_up, check, output, report),
    )
    return print_reply(reply, as_json=json)
