"""``partita whatif``: what a purchase, faster links or compression would gain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag
from partita.cli.output import print_reply


def whatif(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(metavar="PLAN|MODEL", help="Plan file, or ONNX file to plan for.")
    ],
    cluster: flags.PlanClusterOpt = None,
    add: Annotated[
        list[str] | None, flag("--add", "More devices: KIND[:NUMBER], or like DEVICE[:NUMBER].")
    ] = None,
    link: Annotated[
        list[str] | None, flag("--link", "Faster links: RATE or 2x for all, A:B=RATE between two.")
    ] = None,
    memory: Annotated[
        list[str] | None, flag("--memory", "Other memory: SIZE or 2x for all, or DEVICE=SIZE.")
    ] = None,
    compress: Annotated[
        list[str] | None, flag("--compress", "Let tensors travel so: float16, uint8, zlib...")
    ] = None,
    samples: Annotated[
        list[str] | None, flag("--samples", "Says how far payloads compress: folder of samples.")
    ] = None,
    planner: flags.PlannerOpt = "best",
    objective: flags.ObjectiveOpt = "latency",
    budget: Annotated[
        float | None,
        flags.number("--budget", 0, flags.MOST_SECONDS, "Seconds of all searches; 60 by default."),
    ] = None,
    seed: flags.SeedOpt = 0,
    in_flight: flags.InFlightOpt = None,
    model: flags.PlanModelOpt = None,
    profile: flags.ProfileOpt = None,
    estimator: flags.EstimatorOpt = "table",
    shape: flags.ShapeOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Rank changes by what they gain: each is planned for anew and simulated."""
    from partita.cli.actions import whatif as action

    wanted = action.WhatIfFlags(add, link, memory, compress, samples, planner)
    if action.is_plan(source):
        own = ("objective", "seed", "in_flight")
        flags.refuse_given(context, own, f"is for a model: plan '{source}' says its own")
        files = flags.PlanFiles(source, model, cluster, shape, profile, estimator)
        return print_reply(action.ask_for_plan(files, wanted, budget), as_json=json)
    flags.refuse_given(context, ("model",), f"is for a plan: '{source}' is a model itself")
    if cluster is None:
        raise typer.BadParameter("A model needs --cluster FILE")
    options = action.make_options(objective, budget, seed, in_flight, None)
    sources = flags.ModelFiles(source, cluster, shape, profile, estimator)
    return print_reply(action.ask_for_model(sources, wanted, options), as_json=json)
