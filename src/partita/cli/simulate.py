"""``partita simulate``: predict a plan's run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.adapting import (
    AdaptOpt,
    BudgetOpt,
    HoldOpt,
    PlannerOpt,
    ThresholdOpt,
    TimeScaleOpt,
)
from partita.cli.flags import (
    MOST_REQUESTS,
    MOST_SECONDS,
    DebugOpt,
    EstimatorOpt,
    InFlightOpt,
    JsonOpt,
    PlanArg,
    PlanClusterOpt,
    PlanModelOpt,
    ProfileOpt,
    ShapeOpt,
    from_to,
    refuse_given,
)
from partita.units import format_seconds


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("simulate")
    def simulate(
        context: typer.Context,
        plan: PlanArg,
        requests: Annotated[
            int,
            typer.Option("--requests", callback=from_to(1, MOST_REQUESTS), help="Inputs to feed."),
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
        planner: PlannerOpt = "best",
        budget: BudgetOpt = 60.0,
        time_scale: TimeScaleOpt = 1.0,
        trace: Annotated[
            Path | None, typer.Option("--trace", help="Timeline to write, for Perfetto.")
        ] = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Predict latency, throughput, busy times and memory on a virtual clock."""
        from partita.cli.adapting import make_options, scale_traces
        from partita.cli.output import Reply, check_output, print_reply
        from partita.cli.replies import describe_report
        from partita.cli.sources import profile_files, read_cost, read_plan
        from partita.report import ReportBundle, plan_table, report_tables, write_trace

        if adapt:
            refuse_given(context, ("requests", "in_flight", "trace"), "does not go with --adapt")
        else:
            refuse_given(
                context,
                ("duration", "interval", "search_time", "threshold", "hold", "planner", "budget"),
                "needs --adapt",
            )
        options = make_options(threshold, hold, planner)
        loaded = read_plan(plan, model, cluster, shape)
        check_output(trace, *loaded.files, *profile_files(profile))
        loaded = replace(loaded, cluster=scale_traces(loaded.cluster, time_scale))
        cost = read_cost(loaded.graph, loaded.cluster, profile, estimator)
        if adapt:
            times = Times(duration, interval, search_time, budget)
            reply = predict_adaptive(cost, loaded.plan, (planner, options), times)
            return print_reply(reply, as_json=json)
        report = predict(cost, loaded.plan, requests, in_flight)
        shown: list[Any] = [plan_table(loaded.plan, loaded.cluster.names), *report_tables(report)]
        if trace is not None:
            write_trace(trace, ReportBundle(graph_title(loaded), loaded.plan, predicted=report))
            shown.append(f"Timeline written to {trace}")
        return print_reply(Reply(describe_report(report), shown), as_json=json)


@dataclass(frozen=True)
class Times:
    """Seconds of a long simulated run; see :func:`partita.simulation.simulate_adaptive`."""

    duration_s: float
    interval_s: float
    search_s: float | None
    budget_s: float


def _check_times(times: Times) -> None:
    from partita.errors import InputError

    if times.interval_s and times.duration_s > MOST_REQUESTS * times.interval_s:
        raise InputError(
            f"--duration {times.duration_s:g} with --interval {times.interval_s:g} are"
            f" {times.duration_s / times.interval_s:.3g} requests, allowed: {MOST_REQUESTS}.",
            subject="--interval",
        )


def predict_adaptive(cost: Any, plan: Any, method: tuple[str, Any], times: Times) -> Any:
    """Return the reply of a long run whose plan changes with its links.

    Raises:
        InputError: The plan is for several requests at a time.
    """
    from partita.adapting.replanner import make_method
    from partita.cli.adapting import describe_changes, list_notes, show_changes
    from partita.cli.output import Reply, progress_bar
    from partita.errors import InputError
    from partita.planners.options import options_of
    from partita.simulation import simulate_adaptive

    _check_times(times)
    if plan.in_flight > 1:
        raise InputError(
            f"--adapt simulates one request at a time, the plan is for {plan.in_flight}. Plan again"
            " with --in-flight 1.",
            subject="--adapt",
        )
    planner, adapt = method
    wishes = options_of(plan, budget_s=times.budget_s)
    found = make_method(planner, options=wishes, adapt=adapt, search_s=times.search_s)
    with progress_bar("simulating") as advance:
        run = simulate_adaptive(
            cost,
            found,
            duration_s=times.duration_s,
            interval_s=times.interval_s,
            plan=plan,
            progress=lambda at_s: advance(int(at_s), int(times.duration_s), "seconds"),
        )
    ordered = sorted(run.latencies_s)
    quantiles = {"p50": ordered[len(ordered) // 2], "p99": ordered[int(0.99 * len(ordered))]}
    latency_s = {"mean": run.mean_s, **quantiles}
    notes = list_notes(cost.cluster, times.duration_s)
    payload = {
        "planner": planner,
        "requests": len(run.latencies_s),
        "latency_s": latency_s,
        "changes": describe_changes(run.changes),
    }
    if notes:
        payload["notes"] = [" ".join(note.split()) for note in notes]
    line = (
        f"Latency:     {format_seconds(run.mean_s)} on average of {len(ordered)} requests in"
        f" {times.duration_s:g} s, p50 {format_seconds(quantiles['p50'])},"
        f" p99 {format_seconds(quantiles['p99'])}"
    )
    return Reply(payload, [*show_changes(run.changes), line, *notes])


def graph_title(loaded: Any) -> str:
    """Return a heading: which model on which cluster."""
    return f"{loaded.graph.name} on {loaded.cluster.name}"


def predict(cost: Any, plan: Any, requests: int, in_flight: int | None) -> Any:
    """Return the predicted run of a plan.

    Raises:
        InputError: More requests at a time are asked for than the plan allows.
    """
    from partita.simulation import simulate as run

    check_in_flight(plan, in_flight)
    layout = cost.layout(plan)
    return run(
        layout.program,
        cost.price(layout),
        requests=requests,
        in_flight=in_flight,
        planner=plan.planner,
        seed=plan.seed,
    )


def check_in_flight(plan: Any, in_flight: int | None) -> None:
    """Return when the plan allows so many requests at a time.

    Raises:
        InputError: It does not.
    """
    from partita.errors import InputError

    if in_flight is not None and not 1 <= in_flight <= plan.in_flight:
        raise InputError(
            f"--in-flight is {in_flight}, the plan allows 1 to {plan.in_flight}."
            " Plan again with a larger --in-flight.",
            subject="--in-flight",
        )
