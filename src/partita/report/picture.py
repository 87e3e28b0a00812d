"""Timeline and charts as PNG, drawn with Matplotlib."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from partita.report.bars import BarChart
from partita.report.palette import LIGHT
from partita.report.scale import name_unit, shorten
from partita.report.timeline import Row, Source, Timeline, describe_lanes

_DPI = 144
_STYLE: dict[Source, dict[str, Any]] = {
    "predicted": {"alpha": 0.35, "offset": 0.06, "where": "upper"},
    "measured": {"alpha": 0.9, "offset": 0.52, "where": "lower"},
}
_BAR_HEIGHT = 0.4
#: What would make two files of one picture differ.
_STAMP = {"png": "Software", "svg": "Date"}


def paint_timeline(timeline: Timeline, title: str) -> bytes:
    """The timeline as PNG: one row per lane, predicted above measured."""
    if timeline.requests < timeline.total:
        title = f"{shorten(title, 60)}: first {timeline.requests} of {timeline.total} requests"
    if describe_lanes(timeline):
        title = f"{shorten(title, 60)}, {describe_lanes(timeline)}"
    figure, axes = start(len(timeline.rows), title)
    unit, length_s = name_unit(timeline.end_s)
    for index, row in enumerate(timeline.rows):
        _paint_row(axes, row, index, length_s)
    _finish_axes(axes, [row.name for row in timeline.rows], f"time since the first input, {unit}")
    axes.set_xlim(0, timeline.end_s / length_s * 1.01 or 1.0)
    handles = [Patch(color=LIGHT[kind], label=kind) for kind in timeline.kinds]
    _add_legend(axes, handles, timeline.sources)
    return encode(figure)


def paint_bars(chart: BarChart, title: str) -> bytes:
    """A bar chart as PNG: one row per bar, predicted above measured."""
    figure, axes = start(len(chart.rows), title)
    for index, row in enumerate(chart.rows):
        values: tuple[tuple[Source, float | None], ...] = (
            ("predicted", row.predicted),
            ("measured", row.measured),
        )
        for source, value in values:
            if value is not None:
                style = _STYLE[source]
                alone = row.predicted is None or row.measured is None
                base = index + ((1 - _BAR_HEIGHT) / 2 if alone else style["offset"])
                bar = [(0, value / chart.scale)]
                colour = LIGHT[row.kind]
                axes.broken_barh(bar, (base, _BAR_HEIGHT), color=colour, alpha=style["alpha"])
                place = (value / chart.scale, base + _BAR_HEIGHT / 2)
                _annotate(axes, chart.show(value), place)
        if row.predicted is None and row.measured is None:
            _annotate(axes, shorten(row.remark, 70), (0, index + 0.5))
    _finish_axes(axes, [row.name for row in chart.rows], chart.unit)
    axes.set_xlim(0, chart.end / chart.scale * 1.14)
    handles: list[Any] = []
    if chart.reference:
        value, name = chart.reference
        label = f"{literal(shorten(name, 50))}: {chart.show(value)}"
        handles.append(axes.axvline(value / chart.scale, color="#c62828", ls="--", label=label))
    _add_legend(axes, handles, chart.sources)
    return encode(figure)


def start(rows: int, title: str) -> tuple[Figure, Any]:
    """A figure with room for so many rows, and its axes."""
    figure = Figure(figsize=(11, max(2.6, 1.5 + 0.36 * rows)), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(literal(shorten(title, 90)), loc="left", fontsize=11, pad=24)
    return figure, axes


def _paint_row(axes: Any, row: Row, index: int, length_s: float) -> None:
    for source, spans in row.spans.items():
        style = _STYLE[source]
        for odd in (0, 1):
            bars = [
                (max(s.start_s, 0.0) / length_s, (s.end_s - max(s.start_s, 0.0)) / length_s)
                for s in spans
                if s.request % 2 == odd
            ]
            axes.broken_barh(
                bars,
                (index + style["offset"], _BAR_HEIGHT),
                color=LIGHT[row.kind],
                alpha=style["alpha"] * (0.6 if odd else 1.0),
                linewidth=0.3,
            )


def _finish_axes(axes: Any, names: list[str], label: str) -> None:
    axes.set_ylim(len(names) or 1, 0)
    axes.set_yticks([index + 0.5 for index in range(len(names))])
    axes.set_yticklabels([literal(shorten(name, 34)) for name in names], fontsize=8)
    axes.set_xlabel(label, fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#d8dee4", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    for index in range(0, len(names), 2):
        axes.axhspan(index, index + 1, color="#f4f6f8", zorder=-1)


def _add_legend(axes: Any, handles: list[Any], sources: Sequence[Source]) -> None:
    both = [
        Patch(
            facecolor=LIGHT["compute"],
            alpha=_STYLE[source]["alpha"],
            label=f"{source} ({_STYLE[source]['where']})" if len(sources) > 1 else source,
        )
        for source in sources
    ]
    if not handles and not both:
        return
    axes.legend(
        handles=[*handles, *both],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.1,
        ncols=len(handles) + len(both),
        fontsize=8,
        frameon=False,
    )


def _annotate(axes: Any, words: str, place: tuple[float, float]) -> None:
    axes.annotate(
        literal(words),
        place,
        xytext=(4, 0),
        textcoords="offset points",
        fontsize=7,
        color="#59636e",
        va="center",
    )


def literal(text: str) -> str:
    """Text that Matplotlib draws as it is: no formulas, no control characters."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return shown.replace("$", r"\$")


def encode(figure: Figure, kind: str = "png") -> bytes:
    """The file's bytes: ``png`` or ``svg``."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks shows as boxes; nobody need read of it on stderr.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=kind, metadata={_STAMP[kind]: None})
    return buffer.getvalue()
