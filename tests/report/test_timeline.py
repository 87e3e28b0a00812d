"""The layout of spans on rows."""

from tests.report.samples import DEVICES, make_report

from partita.execution import Report, Span
from partita.report.scale import list_ticks, name_unit, shorten
from partita.report.timeline import (
    MAX_BARS,
    MAX_REQUESTS,
    MAX_ROWS,
    describe_lanes,
    lay_out,
    separate,
)


def make_run(spans: list[Span], requests: int) -> Report:
    """Return a report with spans and little else."""
    return Report("p", 0, (1.0,) * requests, 1.0, (), (), tuple(spans))


def test_rows_follow_devices_then_lanes() -> None:
    """Rows keep the devices' order, and within a device load, compute, receive, send, deliver."""
    timeline = lay_out(make_report(), make_report(noise=0.1))
    names = [row.name for row in timeline.rows]
    assert names[:3] == ["camera compute", "camera → gateway", "camera → nano-1"]
    order = [DEVICES.index(name.split()[0]) for name in names]
    assert order == sorted(order)
    assert timeline.sources == ("predicted", "measured")


def test_loads_before_the_first_feed_are_left_out() -> None:
    """A load that ended before the run has no row; one that reaches into it has."""
    early = Span("d", "load", 0, "f", -1, -2.0, -1.0)
    late = Span("d", "load", 0, "f", -1, -2.0, 0.5)
    assert lay_out(make_run([early], 1), None).rows == ()
    assert [row.kind for row in lay_out(make_run([late], 1), None).rows] == ["load"]


def test_long_runs_show_their_first_requests() -> None:
    """A picture holds a few requests and a bounded number of bars, but at least one request."""
    run = make_report(requests=30)
    timeline = lay_out(run, None)
    assert (timeline.requests, timeline.total) == (MAX_REQUESTS, 30)
    assert {s.request for row in timeline.rows for s in row.spans["predicted"]} == set(
        range(MAX_REQUESTS)
    )
    many = [Span("d", "compute", i, "x", i % 3, i * 1.0, i + 0.5) for i in range(3 * MAX_BARS)]
    assert lay_out(make_run(many, 3), None).requests == 1


def test_no_spans_no_rows() -> None:
    """Without tracing the timeline is empty, and ends at 0."""
    timeline = lay_out(make_run([], 2), None)
    assert (timeline.rows, timeline.end_s) == ((), 0.0)


def test_separate_gives_overlapping_spans_their_own_row() -> None:
    """Two loaders at once take two rows; a third that begins as the first ends shares its row."""
    spans = [
        Span("d", "load", i, "", -1, *times) for i, times in enumerate([(0, 2), (1, 3), (2, 4)])
    ]
    assert [[s.step for s in row] for row in separate(spans)] == [[0, 2], [1]]


def test_ticks_are_round_and_cover_the_axis() -> None:
    """Ticks are evenly spaced from 0, never past the end, for any magnitude."""
    for end in (1e-6, 0.034, 0.5, 1.0, 7.3, 99.9, 12345.0):
        ticks = list_ticks(end)
        assert ticks[0] == 0
        assert ticks[-1] <= end * 1.001
        assert 4 <= len(ticks) <= 11
    assert list_ticks(0.0) == [0.0]


def test_units_and_short_names() -> None:
    """Time axes read in s, ms or us; long names keep head and tail."""
    assert [name_unit(end)[0] for end in (5.0, 0.1, 0.0005)] == ["s", "ms", "us"]
    assert shorten("raspberry-pi-4 → jetson-nano-17", 20) == "raspberry…on-nano-17"
    assert shorten("short", 20) == "short"


def test_the_end_of_a_long_run_is_shown_from_its_own_begin() -> None:
    """The last requests that the first do not show, none where all are shown already."""
    run = make_report(requests=30)
    timeline = lay_out(run, None, last=True)
    spans = [span for row in timeline.rows for span in row.spans["predicted"]]
    assert {span.request for span in spans} == set(range(30 - MAX_REQUESTS, 30))
    assert min(span.start_s for span in spans) == 0
    assert lay_out(make_report(requests=MAX_REQUESTS + 1), None, last=True).requests == 1


def test_of_very_many_lanes_the_busiest_have_rows() -> None:
    """They keep their order, and the page says that there are more."""
    spans = [
        Span(f"d{number:03}", "compute", 0, "s", 0, 0.0, 1.0 + number % 2 + number / 1e4)
        for number in range(2 * MAX_ROWS)
    ]
    timeline = lay_out(make_run(spans, 1), None)
    expected = [f"d{number:03} compute" for number in range(2 * MAX_ROWS) if number % 2]
    assert [row.name for row in timeline.rows] == expected
    assert describe_lanes(timeline) == "the 60 busiest of 120 lanes"
    assert describe_lanes(lay_out(make_report(), None)) == ""
