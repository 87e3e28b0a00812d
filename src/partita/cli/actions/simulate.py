"""Predicting runs of a plan on a virtual clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from partita.adapting.methods import make_method
from partita.cli.actions.anew import make_search
from partita.cli.costs import allow_in_flight, profile_files, read_cost
from partita.cli.flags import MOST_REQUESTS, AdaptFlags, PlanFiles
from partita.cli.output import Reply, check_output, progress_bar
from partita.cli.replies import add_notes, describe_changes, describe_report, show_changes
from partita.cli.sources import read_plan
from partita.errors import InputError
from partita.execution import AdaptOptions
from partita.plan import Plan
from partita.planners import get_planner
from partita.report import ReportBundle, plan_table, report_tables
from partita.simulation import predict, simulate_adaptive
from partita.units import format_seconds


@dataclass(frozen=True)
class LongRun:
    """Seconds of a long simulated run; see :func:`partita.simulation.simulate_adaptive`."""

    duration_s: float
    interval_s: float
    search_s: float | None


def simulate_plan(
    files: PlanFiles, requests: int, in_flight: int | None, trace: Path | None
) -> Reply:
    """Predict the run of some requests.

    Args:
        in_flight: Most requests at a time; None for as many as the plan is for.
        trace: Timeline to write; None writes none.

    Raises:
        InputError: A file cannot be used, or memory has no room for so many requests.
    """
    loaded = read_plan(files)
    check_output(trace, *loaded.files, *profile_files(files.profiles))
    cost = read_cost(loaded.graph, loaded.cluster, files)
    loaded = replace(loaded, plan=allow_in_flight(loaded.plan, cost, in_flight))
    report = predict(cost, loaded.plan, requests=requests, in_flight=in_flight)
    shown = [plan_table(loaded.plan, loaded.cluster.names), *report_tables(report)]
    reply = Reply(describe_report(report), [*shown])
    if trace is not None:
        from partita.report import write_trace  # Matplotlib takes longer than to simulate

        write_trace(trace, ReportBundle(loaded.title, loaded.plan, predicted=report))
        reply.shown.append(f"Timeline written to {trace}")
    return reply


def simulate_long_run(files: PlanFiles, flags: AdaptFlags, times: LongRun) -> Reply:
    """Predict a run for some seconds whose plan changes with its links.

    Raises:
        InputError: The plan is for several requests at a time, or there are too many requests.
        PlanError: There is no such planner.
    """
    adapt = read_adapt(flags)
    loaded = read_plan(files)
    cost = read_cost(loaded.graph, loaded.cluster, files)
    plan = loaded.plan
    _check_long_run(plan, times)
    find = make_search(plan, flags, cost)
    method = make_method(flags.planner, find=find, adapt=adapt, search_s=times.search_s)
    with progress_bar("simulating") as advance:
        run = simulate_adaptive(
            cost,
            method,
            duration_s=times.duration_s,
            interval_s=times.interval_s,
            plan=plan,
            progress=lambda at_s: advance(int(at_s), int(times.duration_s), "seconds"),
        )
    ordered = sorted(run.latencies_s)
    p50_s, p99_s = ordered[len(ordered) // 2], ordered[int(0.99 * len(ordered))]
    payload = {
        "planner": flags.planner,
        "requests": len(ordered),
        "latency_s": {"mean": run.mean_s, "p50": p50_s, "p99": p99_s},
        "changes": describe_changes(run.changes),
    }
    line = (
        f"Latency:     {format_seconds(run.mean_s)} on average of {len(ordered)} requests in"
        f" {times.duration_s:g} s, p50 {format_seconds(p50_s)}, p99 {format_seconds(p99_s)}"
    )
    reply = Reply(payload, [*show_changes(run.changes), line])
    add_notes(reply, cost.cluster, times.duration_s)
    return reply


def _check_long_run(plan: Plan, times: LongRun) -> None:
    if times.interval_s and times.duration_s > MOST_REQUESTS * times.interval_s:
        raise InputError(
            f"--duration {times.duration_s:g} with --interval {times.interval_s:g} are"
            f" {times.duration_s / times.interval_s:.3g} requests, allowed: {MOST_REQUESTS}.",
            subject="--interval",
        )
    if plan.in_flight > 1:
        raise InputError(
            f"--adapt simulates one request at a time, the plan is for {plan.in_flight}. Plan again"
            " with --in-flight 1.",
            subject="--adapt",
        )


def read_adapt(flags: AdaptFlags) -> AdaptOptions:
    """When a drift changes the plan.

    Raises:
        PlanError: There is no such planner.
    """
    get_planner(flags.planner)
    return AdaptOptions(threshold=flags.threshold, hold_s=flags.hold_s)
