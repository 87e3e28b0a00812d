"""``partita run``: run a plan on real or emulated workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import MOST_REQUESTS, MOST_SECONDS, flag, number, refuse_given
from partita.cli.output import print_reply

#: Parameters that say something of a stream alone.
STREAM_FLAGS = (
    *("sink", "follow", "rate", "when_full", "stall", "on_bad", "classes", "answer"),
    *("resize", "crop", "color", "layout", "mean", "std", "prepare"),
)


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
    stream: Annotated[
        str | None,
        flag(
            "--stream", "Inputs that keep coming: folder, video, /dev/video0, address, - (stdin)."
        ),
    ] = None,
    sink: Annotated[
        str, flag("--sink", "Answers to a stream: FILE.jsonl, folder of .npy, or - (stdout).")
    ] = "-",
    follow: Annotated[bool, flag("--follow", "Wait for new files in the folder.")] = False,
    rate: Annotated[
        float | None, number("--rate", 1e-6, 1e6, "Most inputs of a stream read per second.")
    ] = None,
    when_full: Annotated[
        str | None,
        flag("--when-full", "New inputs drop the oldest that wait, or wait: drop or wait."),
    ] = None,
    stall: Annotated[
        float, number("--stall", 0, MOST_SECONDS, "Seconds without an input that end a stream.")
    ] = 10.0,
    on_bad: Annotated[
        str, flag("--on-bad", "At an input that cannot be decoded: stop or skip.")
    ] = "stop",
    classes: Annotated[
        int | None, number("--classes", 1, 10**6, "Write only so many classes, the likeliest.")
    ] = None,
    answer: Annotated[
        str | None, flag("--answer", "Write what MODULE:FUNCTION makes of the outputs.")
    ] = None,
    resize: Annotated[
        str | None, flag("--resize", "Pictures: pixels of the shorter side, or HEIGHTxWIDTH.")
    ] = None,
    crop: Annotated[str | None, flag("--crop", "Then the middle: pixels, or HEIGHTxWIDTH.")] = None,
    color: Annotated[str | None, flag("--color", "Order of channels: rgb or bgr.")] = None,
    layout: Annotated[str | None, flag("--layout", "Order of axes: nchw or nhwc.")] = None,
    mean: Annotated[
        str | None, flag("--mean", "Taken from numbers from 0 to 1: 0.5, or one per channel.")
    ] = None,
    std: Annotated[str | None, flag("--std", "Divides what is left, as --mean.")] = None,
    prepare: Annotated[
        str | None, flag("--prepare", "MODULE:FUNCTION makes inputs of pictures instead.")
    ] = None,
    output: Annotated[
        Path | None, flag("--output", "Folder for outputs (.npz per input).", "-o")
    ] = None,
    report: Annotated[
        Path | None, flag("--report", "Folder for the HTML report and the trace.")
    ] = None,
    top: flags.TopOpt = False,
    page: flags.PageOpt = None,
    log_format: flags.LogFormatOpt = flags.LogFormat.TEXT,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Run on real or emulated workers; outputs, and measured beside predicted."""
    if not adapt:
        refuse_given(context, ("threshold", "hold"), "needs --adapt")
    if not (adapt or recover):
        refuse_given(context, ("planner", "budget"), "needs --adapt or --recover")
    if stream is None:
        refuse_given(context, STREAM_FLAGS, "needs --stream")
    else:
        refuse_given(context, ("requests", "check", "output"), "does not go with --stream")
        if inputs:
            raise typer.BadParameter("--input does not go with --stream")
        if sink == "-" and json:
            raise typer.BadParameter(
                "--json needs a --sink other than -, which has standard output"
            )
    if inputs:
        refuse_given(context, ("requests",), "does not go with --input: each file is one request")
    if log_format == flags.LogFormat.JSON:
        refuse_given(context, ("top",), "does not go with --log-format json")
    files = flags.PlanFiles(plan, model, cluster, shape, profile, estimator, time_scale)
    access = flags.AccessFlags(workers, insecure, authority, certificate, key, join)
    adapting = flags.AdaptFlags(adapt, recover, threshold, hold, planner, budget)
    from partita.cli.actions.run import RunOptions, run_plan

    options = RunOptions(in_flight, warm_up, check, output, report, flags.WatchFlags(top, page))
    if stream is None:
        requested = flags.RequestFlags(inputs, requests, seed)
        return print_reply(run_plan(files, requested, access, adapting, options), as_json=json)
    from partita.cli.actions.run_stream import run_stream

    pictures = flags.PictureFlags(resize, crop, color, layout, mean, std, prepare)
    asked = flags.StreamFlags(
        stream, sink, follow, rate, when_full, stall, on_bad, classes, answer, pictures
    )
    reply = run_stream(files, asked, access, adapting, options)
    return print_reply(reply, as_json=json, stderr=sink == "-")
