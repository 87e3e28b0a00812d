"""Horizontal bars, predicted above measured, as inline SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from partita.execution import Report
from partita.report.bottleneck import busy_shares
from partita.report.bundle import Contender
from partita.report.markup import Markup, element
from partita.report.scale import list_ticks, name_unit, shorten
from partita.report.tables import name_link, sort_contenders
from partita.report.timeline import MAX_ROWS, Kind, Source
from partita.units import format_seconds

WIDTH = 1000
LABEL_WIDTH = 230
VALUE_WIDTH = 110
BAR = 11
ROW_HEIGHT = 2 * BAR + 10
TOP = 26


@dataclass(frozen=True)
class Bar:
    """One row: its two values, None where there is none, and what to say where both are absent."""

    name: str
    predicted: float | None
    measured: float | None
    kind: Kind = "compute"
    remark: str = ""


@dataclass(frozen=True)
class BarChart:
    """Rows on one axis from 0 to ``end``.

    Attributes:
        show: Writes a value at the end of its bar.
        unit: Written behind the numbers of the axis.
        scale: Length of one unit of the axis, in the rows' own unit.
        reference: A value that every row is measured against, and its name.
        left_out: How many rows of less are not shown.
    """

    rows: tuple[Bar, ...]
    end: float
    show: Callable[[float], str]
    unit: str
    scale: float = 1.0
    reference: tuple[float, str] | None = None
    left_out: int = 0

    @property
    def sources(self) -> tuple[Source, ...]:
        """Which of the two values occur."""
        predicted = any(row.predicted is not None for row in self.rows)
        measured = any(row.measured is not None for row in self.rows)
        both: tuple[tuple[Source, bool], ...] = (("predicted", predicted), ("measured", measured))
        return tuple(source for source, occurs in both if occurs)


def chart_busy(predicted: Report | None, measured: Report | None) -> BarChart:
    """The busy share of the run of each device and each link, the busiest of very many."""
    shares: dict[tuple[Kind, str], list[float | None]] = {}
    for index, run in enumerate((predicted, measured)):
        for where, share in busy_shares(run).items() if run else ():
            is_device = len(where) == 1
            name = where[0] if is_device else name_link(*where)
            kind: Kind = "compute" if is_device else "send"
            shares.setdefault((kind, name), [None, None])[index] = share
    busiest = sorted(shares, key=lambda key: -max(share or 0.0 for share in shares[key]))
    rows = tuple(
        Bar(name, predicted_share, measured_share, kind=kind)
        for kind, name in sorted(busiest[:MAX_ROWS])
        for predicted_share, measured_share in [shares[kind, name]]
    )
    left_out = len(shares) - len(rows)
    return BarChart(rows, 1.0, lambda share: f"{100 * share:.1f} %", "%", 0.01, left_out=left_out)


def chart_comparison(
    contenders: Sequence[Contender], reference: tuple[float, str] | None = None
) -> BarChart:
    """The latency of every planner, the fastest first."""
    rows = tuple(
        Bar(row.planner, row.predicted_s, row.measured_s, remark=row.status or "no plan")
        for row in sort_contenders(contenders)
    )
    values = [v for row in rows for v in (row.predicted, row.measured) if v is not None]
    end = max([*values, reference[0] if reference else 0.0], default=0.0)
    unit, length_s = name_unit(end)
    return BarChart(rows, end or 1.0, format_seconds, unit, length_s, reference)


def draw_bars(chart: BarChart) -> Markup:
    """The chart as ``<svg>``; its classes take their colours from the page."""
    height = TOP + ROW_HEIGHT * len(chart.rows) + 24
    parts = [*_draw_legend(chart), *_draw_axis(chart, height)]
    for index, row in enumerate(chart.rows):
        parts += _draw_row(chart, row, TOP + index * ROW_HEIGHT)
    if chart.reference:
        x = _place(chart, chart.reference[0])
        parts.append(element("line", x1=x, x2=x, y1=TOP - 4, y2=height - 22, class_="mark"))
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        class_="bars",
        xmlns="http://www.w3.org/2000/svg",
    )


def _place(chart: BarChart, value: float) -> float:
    inside = min(max(value / chart.end, 0.0), 1.0)
    return LABEL_WIDTH + inside * (WIDTH - LABEL_WIDTH - VALUE_WIDTH)


def _draw_legend(chart: BarChart) -> Iterator[Markup]:
    x = float(LABEL_WIDTH)
    for source in chart.sources:
        yield element("rect", x=x, y=4, width=12, height=BAR, class_=f"compute {source} even")
        yield element("text", source, x=x + 17, y=13, class_="tick")
        x += 100
    if chart.reference:
        yield element("line", x1=x, x2=x + 14, y1=10, y2=10, class_="mark")
        value, name = chart.reference
        yield element(
            "text", f"{shorten(name, 60)}: {chart.show(value)}", x=x + 20, y=13, class_="tick"
        )


def _draw_axis(chart: BarChart, height: int) -> Iterator[Markup]:
    bottom = height - 22
    for tick in list_ticks(chart.end / chart.scale):
        x = _place(chart, tick * chart.scale)
        yield element("line", x1=x, x2=x, y1=TOP - 4, y2=bottom, class_="grid")
        words = f"{tick:g} {chart.unit}"
        yield element("text", words, x=x, y=bottom + 14, class_="tick", text_anchor="middle")


def _draw_row(chart: BarChart, row: Bar, top: float) -> Iterator[Markup]:
    middle = top + ROW_HEIGHT / 2 + 4
    yield element(
        "text",
        shorten(row.name, 30),
        element("title", row.name),
        x=LABEL_WIDTH - 10,
        y=middle,
        class_="name",
        text_anchor="end",
    )
    values = [(s, v) for s, v in zip(_SOURCES, (row.predicted, row.measured), strict=True)]
    known = [(source, value) for source, value in values if value is not None]
    if not known:
        words = shorten(row.remark, 80)
        yield element("text", words, x=LABEL_WIDTH + 4, y=middle, class_="tick")
    y = top + 4 + (2 - len(known)) * BAR / 2
    for source, value in known:
        width = max(_place(chart, value) - LABEL_WIDTH, 0.75)
        kind = f"{row.kind} {source} even"
        yield element("rect", x=LABEL_WIDTH, y=y, width=width, height=BAR, class_=kind)
        words = chart.show(value)
        yield element("text", words, x=LABEL_WIDTH + width + 5, y=y + BAR - 2, class_="tick")
        y += BAR + 1


_SOURCES = ("predicted", "measured")
