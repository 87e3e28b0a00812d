"""Flags and answers of the verbs that change their plan while they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from partita.cli.flags import MOST_SECONDS, from_to

AdaptOpt = Annotated[
    bool,
    typer.Option("--adapt", help="Watch links and step times; change the plan when they drift."),
]
ThresholdOpt = Annotated[
    float,
    typer.Option(
        "--threshold",
        callback=from_to(0.01, 1e6),
        help="Drift that counts, as a fraction, up or down.",
    ),
]
HoldOpt = Annotated[
    float,
    typer.Option(
        "--hold",
        callback=from_to(0, MOST_SECONDS),
        help="Seconds that a drift must last before the search.",
    ),
]
PlannerOpt = Annotated[str, typer.Option("--planner", help="Method that plans anew.")]
BudgetOpt = Annotated[
    float,
    typer.Option(
        "--budget", callback=from_to(0, MOST_SECONDS), help="Seconds that a search may take."
    ),
]
TimeScaleOpt = Annotated[
    float,
    typer.Option(
        "--time-scale", callback=from_to(1e-6, 1e6), help="Let traces run so many times as fast."
    ),
]


def make_options(threshold: float, hold_s: float, planner: str) -> Any:
    """Return when to change the plan.

    Raises:
        PlanError: There is no such planner.
    """
    from partita.execution import AdaptOptions
    from partita.planners import get_planner

    get_planner(planner)
    return AdaptOptions(threshold=threshold, hold_s=hold_s)


def scale_traces(cluster: Any, factor: float) -> Any:
    """Return the cluster with its traces ``factor`` times as fast."""
    return cluster if factor == 1 else cluster.with_time_scale(factor)


def list_notes(cluster: Any, end_s: float) -> list[str]:
    """Return a line for each group of traces that ended before the run did."""
    ended: dict[float, list[str]] = {}
    for link in cluster.links:
        if link.trace and link.trace[-1][0] < end_s:
            ended.setdefault(link.trace[-1][0], []).append(f"{link.source} → {link.target}")
    return [
        f"Traces:      of {_some(links)} the last change is at {last_s:.3g} s, the run took"
        f" {end_s:.3g} s: the last rate held to the end"
        for last_s, links in sorted(ended.items())
    ]


def _some(links: Sequence[str]) -> str:
    return links[0] if len(links) == 1 else f"{links[0]} and {len(links) - 1} more"


def describe_changes(changes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return changes of plan for a reply."""
    return [
        {
            "at_s": change.at_s,
            "why": change.why,
            "outcome": change.outcome,
            "detail": change.detail,
            "search_s": change.search_s,
            "switched_s": change.switched_s,
            "predicted_s": {"old": change.predicted_old_s, "new": change.predicted_new_s},
            "measured_s": {"old": change.measured_old_s, "new": change.measured_new_s},
        }
        for change in changes
    ]


def show_changes(changes: Sequence[Any]) -> list[Any]:
    """Return what people see of changes of plan."""
    from partita.report import draw_table
    from partita.report.changes import tabulate_changes

    if not changes:
        return ["Changes:     none; nothing drifted for long enough"]
    return [draw_table(tabulate_changes(changes))]
