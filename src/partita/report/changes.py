"""Changes of plan during a run, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from partita.execution import Change
from partita.report.bundle import PlanRun
from partita.report.tables import NOTHING, TableData, describe_change, drop_empty
from partita.units import format_seconds


def tabulate_changes(changes: Sequence[Change]) -> TableData:
    """One row per search: when, why, its outcome, and latencies, old and new."""
    rows = tuple(
        (
            f"{change.at_s:.1f} s",
            change.why,
            _describe(change),
            NOTHING if change.outcome == "searching" else format_seconds(change.search_s),
            _pair(change.predicted_old_s, change.predicted_new_s),
            _pair(change.measured_old_s, change.measured_new_s),
        )
        for change in changes
    )
    columns = ("at", "why", "outcome", "search", "predicted, old → new", "measured, old → new")
    return drop_empty(TableData("Changes of plan", columns, rows, text_columns=3))


def tabulate_plan_runs(runs: Sequence[PlanRun]) -> TableData:
    """One row per plan: what it was predicted to take beside what its own requests took."""
    rows = tuple(
        (
            run.name,
            str(run.requests),
            format_seconds(run.predicted_s),
            NOTHING if run.measured_s is None else format_seconds(run.measured_s),
            describe_change(run.predicted_s, run.measured_s),
        )
        for run in runs
    )
    columns = ("plan", "requests", "predicted", "measured", "difference")
    return TableData("Latency by plan", columns, rows)


def _describe(change: Change) -> str:
    if change.outcome in ("searching", "switching"):
        return f"still {change.outcome} at the end"
    return describe_outcome(change)


def describe_outcome(change: Change) -> str:
    """What came of a change so far, with what is known of it."""
    told = [change.detail] if change.detail else []
    if change.again:
        told.append(f"{change.again} {'request' if change.again == 1 else 'requests'} fed again")
    if change.outage_s is not None:
        told.append(f"next answer after {format_seconds(change.outage_s)}")
    return change.outcome + (f": {', '.join(told)}" if told else "")


def _pair(old_s: float | None, new_s: float | None) -> str:
    if old_s is None and new_s is None:
        return NOTHING
    return " → ".join(NOTHING if s is None else format_seconds(s) for s in (old_s, new_s))
