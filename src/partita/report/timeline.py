"""Which span goes on which row of a timeline: the layout that all pictures and the trace share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from partita.execution import Report, Span
from partita.report.tables import name_link

Source = Literal["predicted", "measured"]
Kind = Literal["compute", "receive", "send", "load", "deliver"]
#: A device and what it does one thing at a time on.
Lane = tuple[str, str]
KINDS: tuple[Kind, ...] = ("load", "compute", "receive", "send", "deliver")

#: More than this makes a picture slow to open and impossible to read; the trace holds everything. A
#: round number, not tuned.
MAX_BARS = 1500
#: Enough to see a pipeline fill and repeat itself. Not tuned.
MAX_REQUESTS = 6
#: More lanes than this are more than a page is scrolled for: 16 devices that all send to each other
#: have 300. The busiest are shown. Not tuned.
MAX_ROWS = 60
#: Spans of one lane that overlap by less than this are neighbours with a rounded clock. Far below
#: what a picture shows; not tuned.
TOUCH_S = 1e-6


@dataclass(frozen=True)
class Row:
    """One lane of one device: its name for people, and its spans by source."""

    name: str
    kind: Kind
    spans: dict[Source, tuple[Span, ...]]


@dataclass(frozen=True)
class Timeline:
    """Rows in order of device and lane.

    Attributes:
        end_s: End of the last span.
        sources: Which of the two runs there are, from top to bottom.
        end_s: End of the last span; the picture begins with the first feed, at 0.
        requests: How many requests, from the first, are shown.
        total: How many requests the run had.
        lanes: How many lanes had something to do for these requests; the busiest have rows.
    """

    rows: tuple[Row, ...]
    sources: tuple[Source, ...]
    end_s: float
    requests: int
    total: int
    lanes: int = 0

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of lanes that occur."""
        present = {row.kind for row in self.rows}
        return tuple(kind for kind in KINDS if kind in present)


def lay_out(predicted: Report | None, measured: Report | None, *, last: bool = False) -> Timeline:
    """The rows of a timeline of the first requests, as many as can be read.

    Loads are shown where they reach into the run, that is past the first feed.

    Args:
        last: Show the last requests that the first do not show, from where their steps begin.
    """
    named: tuple[tuple[Source, Report | None], ...] = (
        ("predicted", predicted),
        ("measured", measured),
    )
    runs = {source: run for source, run in named if run is not None}
    total = max((len(run.latencies_s) for run in runs.values()), default=0)
    spans = {source: [s for s in run.spans if s.end_s > 0] for source, run in runs.items()}
    requests = count_shown(spans.values(), total)
    shown = {source: [s for s in run if s.request < requests] for source, run in spans.items()}
    if last:
        requests = min(requests, total - requests)
        shown = {source: _take_last(run, total - requests) for source, run in spans.items()}
    lanes: dict[Lane, dict[Source, list[Span]]] = {}
    for source, run in shown.items():
        for span in run:
            own = lanes.setdefault((span.device, span.lane), {name: [] for name in runs})
            own[source].append(span)
    rows = tuple(
        Row(
            name_row(*key),
            kind_of(key[1]),
            {source: tuple(own) for source, own in lanes[key].items()},
        )
        for key in sort_lanes(runs.values(), _busiest(lanes))
    )
    end_s = max((span.end_s for run in shown.values() for span in run), default=0.0)
    return Timeline(rows, tuple(runs), end_s, requests, total, len(lanes))


def _busiest(lanes: Mapping[Lane, Mapping[Source, Sequence[Span]]]) -> list[Lane]:
    """The lanes with the most seconds of spans, as many as are shown."""
    busy_s = {
        key: sum(span.end_s - span.start_s for run in own.values() for span in run)
        for key, own in lanes.items()
    }
    return sorted(lanes, key=lambda key: (-busy_s[key], key))[:MAX_ROWS]


def _take_last(spans: Sequence[Span], first: int) -> list[Span]:
    """The steps of requests from ``first`` on, from the begin of the earliest."""
    own = [span for span in spans if span.request >= first]
    begin_s = min((span.start_s for span in own), default=0.0)
    return [
        replace(span, start_s=span.start_s - begin_s, end_s=span.end_s - begin_s) for span in own
    ]


def count_shown(spans: Iterable[Iterable[Span]], total: int) -> int:
    """The number of requests to draw: at least one, and no more than the caps allow."""
    counts: dict[int, int] = {}
    for span in (s for run in spans for s in run):
        counts[span.request] = counts.get(span.request, 0) + 1
    bars = counts.get(-1, 0)
    most = min(total, MAX_REQUESTS)
    for request in range(most):
        bars += counts.get(request, 0)
        if bars > MAX_BARS:
            return max(request, 1)
    return most


def kind_of(lane: str) -> Kind:
    """The kind of a lane, which gives its bars their colour."""
    head = lane.partition(":")[0]
    return next((kind for kind in KINDS if kind == head), "compute")


def name_row(device: str, lane: str) -> str:
    """A lane's name for people: ``camera compute``, or ``camera → nano`` for a link."""
    head, _, target = lane.partition(":")
    return name_link(device, target) if head == "send" else f"{device} {lane}"


def separate(spans: Iterable[Span]) -> list[list[Span]]:
    """Spans in as few sequences without overlap as needed (several loaders share a lane)."""
    rows: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: (s.start_s, s.end_s)):
        for row in rows:
            if row[-1].end_s <= span.start_s + TOUCH_S:
                row.append(span)
                break
        else:
            rows.append([span])
    return rows


def sort_lanes(runs: Iterable[Report], lanes: Collection[Lane]) -> list[Lane]:
    """Devices' lanes: devices as the runs list them, then kinds."""
    listed = [use.name for run in runs for use in run.devices]
    names = dict.fromkeys([*listed, *sorted(device for device, _ in lanes)])
    places = {name: place for place, name in enumerate(names)}
    return sorted(lanes, key=lambda k: (places[k[0]], KINDS.index(kind_of(k[1])), k[1]))


def describe_lanes(timeline: Timeline) -> str:
    """Which lanes are shown, where those are not all; else empty."""
    if timeline.lanes <= len(timeline.rows):
        return ""
    return f"the {len(timeline.rows)} busiest of {timeline.lanes} lanes"
