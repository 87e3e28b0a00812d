"""Draws what ran and what was predicted: tables, an HTML page, pictures and traces."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from partita.report.bundle import Checked, Contender, ReportBundle
from partita.report.text import compare_table, draw_table, plan_table, report_tables

if TYPE_CHECKING:
    from partita.report.write import ReportFiles, write_chart, write_report, write_trace

__all__ = [
    "Checked",
    "Contender",
    "ReportBundle",
    "ReportFiles",
    "compare_table",
    "draw_table",
    "plan_table",
    "report_tables",
    "write_chart",
    "write_report",
    "write_trace",
]


def __getattr__(name: str) -> Any:
    """Load what writes files on first use: it needs Matplotlib, the terminal's tables do not."""
    if name in __all__:
        return getattr(import_module("partita.report.write"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
