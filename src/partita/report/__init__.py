"""Draws what ran and what was predicted: tables, an HTML page, pictures and traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.lazy import on_first_use
from partita.report.bundle import Checked, Contender, Picture, PlanRun, ReportBundle
from partita.report.tables import LAST_PLAN
from partita.report.text import compare_table, draw_table, plan_table, report_tables

if TYPE_CHECKING:  # needs Matplotlib; the tables of a terminal do not
    from partita.report.write import ReportFiles, write_chart, write_report, write_trace

__all__ = [
    "LAST_PLAN",
    "Checked",
    "Contender",
    "Picture",
    "PlanRun",
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

__getattr__ = on_first_use(__name__, {"write": "ReportFiles write_chart write_report write_trace"})
