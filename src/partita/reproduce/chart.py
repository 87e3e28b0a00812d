"""A chart as PNG, drawn with Matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from partita.reproduce.figure import Chart

_DPI = 120
#: Okabe and Ito's colours, which people with any colour vision tell apart, and two greys.
_COLOURS = (
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#CC79A7",
    "#7A7A7A",
    "#BDBDBD",
    "#0072B2",
    "#D55E00",
    "#000000",
)
#: Names of more letters in all are written upwards: they would not fit beside each other.
_MOST_LETTERS = 150
_MARKS = "osD^vPX*<>"
#: Of points, in square points: where they measure nothing, and what the largest has beyond that.
_LEAST_AREA, _MOST_AREA = 20.0, 1500.0


def draw_charts(charts: Sequence[Chart]) -> bytes:
    """One picture of charts below each other."""
    figure = Figure(figsize=(11, 4.2 * len(charts)), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    for number, chart in enumerate(charts, start=1):
        axes = figure.add_subplot(len(charts), 1, number)
        _DRAW[chart.kind](axes, chart)
        _finish(axes, chart)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _draw_bars(axes: Any, chart: Chart) -> None:
    width = 0.84 / max(1, len(chart.series))
    for number, (name, values) in enumerate(chart.series.items()):
        lefts = [place - 0.42 + (number + 0.5) * width for place in range(len(values))]
        heights = [value or 0.0 for value in values]
        spread = (chart.spreads or {}).get(name)
        errors = None
        if spread:
            pairs = list(zip(heights, spread, strict=True))
            errors = [
                [max(0.0, height - low) for height, (low, _) in pairs],
                [max(0.0, high - height) for height, (_, high) in pairs],
            ]
        colour = _COLOURS[number % len(_COLOURS)]
        axes.bar(lefts, heights, width, color=colour, label=name, yerr=errors, ecolor="#444444")
    names = [str(place) for place in chart.places]
    turned = sum(map(len, names)) > _MOST_LETTERS and not any("\n" in name for name in names)
    axes.set_xticks(range(len(names)), names, rotation=90 if turned else 0)


def _draw_lines(axes: Any, chart: Chart) -> None:
    places = [float(place) for place in chart.places]
    for number, (name, values) in enumerate(chart.series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        known = [(x, y) for x, y in zip(places, values, strict=True) if y is not None]
        mark = _MARKS[number % len(_MARKS)] if len(known) <= 20 else ""
        xs, ys = [x for x, _ in known], [y for _, y in known]
        axes.plot(xs, ys, color=colour, label=name, marker=mark, markersize=4, linewidth=1.4)
        spread = (chart.spreads or {}).get(name)
        if spread:
            lows, highs = [low for low, _ in spread], [high for _, high in spread]
            axes.fill_between(places, lows, highs, color=colour, alpha=0.2, linewidth=0)


def _draw_points(axes: Any, chart: Chart) -> None:
    areas = chart.areas or {}
    largest = max(areas.values(), default=0.0) or 1.0
    places = [float(place) for place in chart.places]
    axes.margins(0.15)
    axes.set_xlim(0, 1.1 * max(places, default=1.0))
    for number, (name, values) in enumerate(chart.series.items()):
        known = [(x, y) for x, y in zip(places, values, strict=True) if y is not None]
        size = _LEAST_AREA + _MOST_AREA * areas.get(name, 0.0) / largest
        words = f"{name} ({areas[name]:.2g})" if name in areas else name
        xs, ys = [x for x, _ in known], [y for _, y in known]
        colour = _COLOURS[number % len(_COLOURS)]
        # The middle tells points apart that are smaller than their areas.
        axes.scatter(xs, ys, s=size, color=colour, alpha=0.35, linewidths=0)
        axes.plot(xs, ys, _MARKS[number % len(_MARKS)], color=colour, markersize=4, label=words)


_DRAW = {"bars": _draw_bars, "lines": _draw_lines, "points": _draw_points}


def _finish(axes: Any, chart: Chart) -> None:
    axes.set_title(chart.title, loc="left", fontsize=10)
    axes.set_xlabel(chart.across, fontsize=9)
    axes.set_ylabel(chart.up, fontsize=9)
    if chart.log_axes:
        axes.set_xscale("log")
        axes.set_xticks(chart.places, [f"{place:g}" for place in chart.places])
    if "y" in chart.log_axes:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(bottom=0)
    axes.minorticks_off()
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#d8dee4", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
