"""``partita plan``: decide how to divide a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag, refuse_given
from partita.cli.output import print_reply


def plan(
    context: typer.Context,
    model: flags.ModelArg,
    cluster: flags.ClusterOpt,
    planner: flags.PlannerOpt = "best",
    objective: flags.ObjectiveOpt = "latency",
    budget: flags.BudgetOpt = None,
    seed: flags.SeedOpt = 0,
    in_flight: flags.InFlightOpt = None,
    keep_on: flags.KeepOpt = None,
    wire: flags.WireOpt = None,
    compress: flags.CompressOpt = None,
    axis: flags.AxesOpt = None,
    energy_limit: flags.EnergyOpt = None,
    simple: Annotated[
        bool, flag("--simple", "Prefer few stages: the coarsest plan within 5 % of the best found.")
    ] = False,
    swap: flags.SwapOpt = False,
    fallback: Annotated[
        bool, flag("--fallback", "Keep a plan loaded that the requester goes on with alone.")
    ] = False,
    settings: flags.SetOpt = None,
    real: Annotated[
        bool,
        flag("--real", "Run plans on the cluster: distredge learns, other methods are tuned."),
    ] = False,
    want: Annotated[
        str | None, flag("--want", "Fewest boards that reach this: 5/s, or '200 ms'.")
    ] = None,
    price: Annotated[
        list[str] | None, flag("--price", "Of one board, for --want: KIND=AMOUNT.")
    ] = None,
    bits: Annotated[
        Path | None, flag("--bits", "Bits of layers, from 'partita quantize --errors FILE'.")
    ] = None,
    kernels: flags.KernelsOpt = None,
    samples: flags.PlanSamplesOpt = None,
    accuracy_drop: flags.DropOpt = None,
    judge: flags.JudgeOpt = None,
    measure: flags.MeasureOpt = None,
    pareto: Annotated[
        Path | None,
        flag("--pareto", "Accuracy against latency of all choices: .png, .svg or .json."),
    ] = None,
    insecure: flags.InsecureOpt = False,
    authority: flags.AuthorityOpt = None,
    certificate: flags.CertificateOpt = None,
    key: flags.KeyOpt = None,
    join: flags.JoinOpt = None,
    profile: flags.ProfileOpt = None,
    estimator: flags.EstimatorOpt = "table",
    shape: flags.ShapeOpt = None,
    output: Annotated[Path | None, flag("--output", "Plan file to write.", "-o")] = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Decide; print the prediction, a lower bound, and whether splitting is worth it at all."""
    from partita.cli.actions.plan import decide, make_options

    if planner != "best":
        refuse_given(context, ("axis",), "is for --planner best: others divide as they do")
    if not real:
        refuse_given(
            context, ("insecure", "authority", "certificate", "key", "join"), "needs --real"
        )
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
        simple=simple,
        swap=swap,
    )
    options = replace(options, fallback=fallback, integer_kernels=kernels == "integer")
    files = flags.ModelFiles(model, cluster, shape, profile, estimator, bits, kernels)
    accuracy = flags.AccuracyFlags(samples, accuracy_drop, judge, measure, pareto)
    if want is not None or price:
        from partita.cli.actions.want import WantFlags, check_alone, size

        check_alone(want, objective, real=real, samples=samples is not None)
        wanted = WantFlags(want or "", price, in_flight)
        return print_reply(size(files, wanted, planner, options, output), as_json=json)
    access = flags.AccessFlags(None, insecure, authority, certificate, key, join) if real else None
    reply = decide(files, planner, options, access, output, accuracy=accuracy)
    return print_reply(reply, as_json=json)
