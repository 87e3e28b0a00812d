"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from partita.execution import Report
from partita.plan import Plan
from partita.report import tables
from partita.report.bundle import Contender
from partita.report.tables import TableData


def draw_table(data: TableData) -> Table:
    """A table for ``rich``; cells are taken literally, never as console markup."""
    table = Table(title=Text(data.title), title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for index, column in enumerate(data.columns):
        table.add_column(
            Text(column),
            justify="left" if index < data.text_columns else "right",
            overflow="fold",
        )
    for row in data.rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    return table


def plan_table(plan: Plan, order: Sequence[str] = (), *, title: str = "Plan") -> Table:
    """Stages, layers, axis and each device's share."""
    return draw_table(tables.tabulate_plan(plan, order, title=title))


def report_tables(predicted: Report | None, measured: Report | None = None) -> list[Table]:
    """The tables of a run: latency and throughput, what decides, devices, links, queues."""
    data = [
        tables.tabulate_run(predicted, measured),
        tables.tabulate_path(predicted, measured),
        tables.tabulate_devices(predicted, measured),
        tables.tabulate_links(predicted, measured),
        tables.tabulate_queues(predicted, measured),
    ]
    return [draw_table(table) for table in data if table.rows]


def compare_table(contenders: Sequence[Contender]) -> Table:
    """One row per planner, the fastest first."""
    return draw_table(tables.tabulate_comparison(contenders))


def clean(cell: str) -> str:
    """The cell without control characters: names come from files."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cell)
