"""``partita serve``: models behind HTTP and gRPC."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag, number, refuse_given
from partita.cli.interrupt import run_service
from partita.cli.output import say, show_log


def serve(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=]FILE...", help="Plan files, or ONNX files to plan for."),
    ],
    listen: Annotated[
        str, flag("--listen", "HOST:PORT; port 0 is any that is free.")
    ] = "127.0.0.1:8000",
    queue: Annotated[
        int, number("--queue", 0, 100_000, "Requests of a model that wait beside those under way.")
    ] = 64,
    grace: Annotated[
        float, number("--grace", 0, 3600, "Seconds for answers that are due when it ends.")
    ] = 30.0,
    page: Annotated[
        bool, flag("--page", "Also serve live pages at /live/, and metrics at /metrics.")
    ] = False,
    grpc: Annotated[
        str | None, flag("--grpc", "HOST:PORT at which gRPC calls are answered, too.")
    ] = None,
    objective: flags.ObjectiveOpt = "throughput",
    in_flight: flags.InFlightOpt = None,
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
    on: flags.OnOpt = None,
    site: flags.SiteOpt = None,
    recover: flags.RecoverOpt = False,
    adapt: flags.AdaptOpt = False,
    threshold: flags.ThresholdOpt = 0.25,
    hold: flags.HoldOpt = 3.0,
    planner: Annotated[str, flag("--planner", "Method that plans, also anew.")] = "best",
    budget: flags.SearchBudgetOpt = None,
    seed: flags.SeedOpt = 0,
    log_format: flags.LogFormatOpt = flags.LogFormat.TEXT,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Serve models by the Open Inference Protocol v2, over HTTP and gRPC, until stopped."""
    if not adapt:
        refuse_given(context, ("threshold", "hold"), "needs --adapt")
    if not (adapt or recover):
        refuse_given(context, ("budget",), "needs --adapt or --recover")
    given = flags.list_given(context)

    def run(started: Callable[[], None]) -> int:
        from partita.cli.actions.serve import Reading, ServeOptions, serve_files

        options = ServeOptions(listen, queue, grace, page, grpc)
        reading = Reading(
            cluster,
            shape,
            profile,
            estimator,
            objective,
            in_flight,
            seed,
            flags.AccessFlags(workers, insecure, authority, certificate, key, join, on, site),
            flags.AdaptFlags(adapt, recover, threshold, hold, planner, budget),
            given,
        )
        with show_log(logging.INFO):
            return serve_files(files, reading, options, started, as_json=json)

    return run_service(run, lambda: say("ended before all models were there"))
