"""``partita plan``: decide how to divide a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import (
    AccessFlags,
    AuthorityOpt,
    AxesOpt,
    BudgetOpt,
    CertificateOpt,
    ClusterOpt,
    CompressOpt,
    DebugOpt,
    EnergyOpt,
    EstimatorOpt,
    InFlightOpt,
    InsecureOpt,
    JsonOpt,
    KeepOpt,
    KeyOpt,
    ModelArg,
    ModelFiles,
    ObjectiveOpt,
    PlannerOpt,
    ProfileOpt,
    SeedOpt,
    SetOpt,
    ShapeOpt,
    WireOpt,
)
from partita.cli.output import print_reply


def plan(
    model: ModelArg,
    cluster: ClusterOpt,
    planner: PlannerOpt = "best",
    objective: ObjectiveOpt = "latency",
    budget: BudgetOpt = 60.0,
    seed: SeedOpt = 0,
    in_flight: InFlightOpt = None,
    keep_on: KeepOpt = None,
    wire: WireOpt = None,
    compress: CompressOpt = None,
    axis: AxesOpt = None,
    energy_limit: EnergyOpt = None,
    settings: SetOpt = None,
    real: Annotated[
        bool,
        typer.Option(
            "--real", help="Let a method that learns do so from runs on the cluster: distredge."
        ),
    ] = False,
    insecure: InsecureOpt = False,
    authority: AuthorityOpt = None,
    certificate: CertificateOpt = None,
    key: KeyOpt = None,
    profile: ProfileOpt = None,
    estimator: EstimatorOpt = "table",
    shape: ShapeOpt = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Plan file to write.")
    ] = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Decide; print the prediction, a lower bound, and whether splitting is worth it at all."""
    from partita.cli.actions.plan import decide, make_options

    options = make_options(
        objective,
        budget,
        seed,
        in_flight,
        settings,
        keep_on=keep_on,
        wires=wire,
        compress=compress,
        axes=axis,
        energy_limits=energy_limit,
    )
    files = ModelFiles(model, cluster, shape, profile, estimator)
    access = AccessFlags(None, insecure, authority, certificate, key) if real else None
    return print_reply(decide(files, planner, options, access, output), as_json=json)
