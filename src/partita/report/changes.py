"""Changes of plan during a run, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from partita.execution import Change
from partita.report.tables import NOTHING, TableData, drop_empty
from partita.units import format_seconds


def tabulate_changes(changes: Sequence[Change]) -> TableData:
    """Return one row per search: when, why, what came of it, and latencies of both plans."""
    rows = tuple(
        (
            f"{change.at_s:.1f} s",
            change.why,
            change.outcome + (f": {change.detail}" if change.detail else ""),
            format_seconds(change.search_s),
            _show(None if change.switched_s is None else change.switched_s - change.at_s),
            _show(change.predicted_old_s),
            _show(change.predicted_new_s),
            _show(change.measured_old_s),
            _show(change.measured_new_s),
        )
        for change in changes
    )
    columns = (
        "at",
        "why",
        "outcome",
        "search",
        "in use after",
        "old plan, predicted",
        "new, predicted",
        "old, measured",
        "new, measured",
    )
    return drop_empty(TableData("Changes of plan", columns, rows, text_columns=3))


def _show(seconds: float | None) -> str:
    return NOTHING if seconds is None else format_seconds(seconds)
