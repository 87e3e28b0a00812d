"""The timeline as an inline SVG picture: predicted above measured in every row."""

from __future__ import annotations

from collections.abc import Iterator

from partita.execution import Span
from partita.report.markup import Markup, element
from partita.report.scale import list_ticks, name_unit, shorten
from partita.report.timeline import Row, Source, Timeline
from partita.units import format_seconds

WIDTH = 1000
LABEL_WIDTH = 230
RIGHT = 24
TOP = 34
BAR = 12
GAP = 2
CHARACTER_WIDTH = 5.6


def draw_timeline(timeline: Timeline) -> Markup:
    """The picture as ``<svg>``; its classes take their colours from the page."""
    row_height = len(timeline.sources) * (BAR + GAP) + 4
    height = TOP + row_height * len(timeline.rows) + 24
    parts: list[Markup] = []
    for index, row in enumerate(timeline.rows):
        parts += _draw_name(row, index, row_height)
    parts += [*_draw_axis(timeline, height), *_draw_legend(timeline)]
    for index, row in enumerate(timeline.rows):
        for number, source in enumerate(timeline.sources):
            top = TOP + index * row_height + 3 + number * (BAR + GAP)
            parts += _draw_bars(timeline, row, source, top)
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        class_="timeline",
        xmlns="http://www.w3.org/2000/svg",
    )


def _place(timeline: Timeline, time_s: float) -> float:
    inside = min(max(time_s, 0.0) / timeline.end_s, 1.0) if timeline.end_s else 0.0
    return LABEL_WIDTH + inside * (WIDTH - LABEL_WIDTH - RIGHT)


def _draw_axis(timeline: Timeline, height: int) -> Iterator[Markup]:
    unit, length_s = name_unit(timeline.end_s)
    bottom = height - 22
    for tick in list_ticks(timeline.end_s / length_s):
        x = _place(timeline, tick * length_s)
        yield element("line", x1=x, x2=x, y1=TOP - 4, y2=bottom, class_="grid")
        yield element(
            "text", f"{tick:g} {unit}", x=x, y=bottom + 14, class_="tick", text_anchor="middle"
        )


def _draw_legend(timeline: Timeline) -> Iterator[Markup]:
    x = float(LABEL_WIDTH)
    for kind in timeline.kinds:
        yield element("rect", x=x, y=6, width=12, height=BAR, class_=f"{kind} measured")
        yield element("text", kind, x=x + 17, y=16, class_="tick")
        x += 30 + 6.5 * len(kind) + 12
    x = float(WIDTH - RIGHT - 300)
    for number, source in enumerate(timeline.sources):
        place = ("upper", "lower")[number]
        words = f"{source} ({place})" if len(timeline.sources) > 1 else source
        yield element("rect", x=x, y=6, width=12, height=BAR, class_=f"compute {source}")
        yield element("text", words, x=x + 17, y=16, class_="tick")
        x += 150


def _draw_name(row: Row, index: int, row_height: int) -> Iterator[Markup]:
    top = TOP + index * row_height
    if index % 2 == 0:
        yield element("rect", x=0, y=top, width=WIDTH, height=row_height, class_="band")
    yield element(
        "text",
        shorten(row.name, 30),
        element("title", row.name),
        x=LABEL_WIDTH - 10,
        y=top + row_height / 2 + 4,
        class_="name",
        text_anchor="end",
    )


def _draw_bars(timeline: Timeline, row: Row, source: Source, top: float) -> Iterator[Markup]:
    for span in row.spans[source]:
        left = _place(timeline, span.start_s)
        width = max(_place(timeline, span.end_s) - left, 0.75)
        shade = "odd" if span.request % 2 else "even"
        title = _describe(span, source)
        bar = element(
            "rect",
            element("title", title),
            x=left,
            y=top,
            width=width,
            height=BAR,
            class_=f"{row.kind} {source} {shade}",
        )
        yield bar
        if row.kind == "compute" and len(span.label) * CHARACTER_WIDTH + 6 <= width:
            yield _label(span.label, left + width / 2, top, source)


def _label(words: str, middle: float, top: float, source: Source) -> Markup:
    return element(
        "text",
        words,
        x=middle,
        y=top + BAR - 3,
        class_=f"inside on-{source}",
        text_anchor="middle",
    )


def _describe(span: Span, source: Source) -> str:
    request = "" if span.request < 0 else f", request {span.request}"
    return (
        f"{source}: {span.label or span.lane}{request}, from {format_seconds(span.start_s)},"
        f" {format_seconds(span.end_s - span.start_s)}"
    )
