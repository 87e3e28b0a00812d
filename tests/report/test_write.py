"""Files of a report: whole, valid, and only where they can be."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from tests.report.samples import make_bundle, make_plan, make_report, rename

from partita.errors import InputError
from partita.report import ReportBundle, write_chart, write_report, write_trace
from partita.report.trace import dump_trace


@pytest.mark.slow
def test_report_writes_its_files(tmp_path: Path) -> None:
    """Page, picture, trace and chart are written, and the pictures open."""
    files = write_report(tmp_path / "out", make_bundle())
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"index.html", "timeline.png", "trace.json", "compare.png"}
    assert files.chart is not None
    for path in (files.timeline, files.chart):
        with Image.open(path) as picture:
            picture.load()
            assert min(picture.size) > 300


@pytest.mark.slow
@pytest.mark.parametrize(
    "bundle",
    [
        ReportBundle("t", make_plan()),
        replace(make_bundle(), measured=None),
        rename(make_bundle(), "$\\frac{$ <x> \x00 \u4e2d [red]" + "long" * 40),
    ],
)
def test_pictures_of_odd_bundles(tmp_path: Path, bundle: ReportBundle) -> None:
    """A plan alone, a prediction alone, and names that look like formulas all draw."""
    files = write_report(tmp_path, bundle)
    assert files.timeline.read_bytes().startswith(b"\x89PNG")
    assert (files.chart is None) == (not bundle.comparison)


def test_trace_is_valid() -> None:
    """Each source is a process, each lane a thread; events carry microseconds and never overlap."""
    run = make_report(requests=3)
    trace = json.loads(dump_trace(run, make_report(requests=3, noise=0.1)))
    events = trace["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {"predicted", "measured"}
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"
    }
    assert {"camera compute", "camera → nano-1", "nano-2 load"} <= set(threads.values())
    bars = [e for e in events if e["ph"] == "X"]
    assert len([e for e in bars if e["pid"] == 1]) == len(run.spans)
    ends: dict[tuple[int, int], float] = {}
    for event in bars:
        key = (event["pid"], event["tid"])
        assert key in threads
        assert event["dur"] >= 0
        assert event["ts"] >= ends.get(key, float("-inf"))
        ends[key] = round(event["ts"] + event["dur"], 3)


def test_trace_keeps_the_times() -> None:
    """A span from 0.5 ms to 2 ms becomes an event at 500 lasting 1500 microseconds."""
    run = make_report()
    span = replace_span(run.spans[0], 0.0005, 0.002)
    one = type(run)(run.planner, 0, run.latencies_s, 1.0, run.devices, run.links, (span,))
    (event,) = [e for e in json.loads(dump_trace(None, one))["traceEvents"] if e["ph"] == "X"]
    assert (event["pid"], event["ts"], event["dur"]) == (2, 500.0, 1500.0)
    assert event["args"] == {"request": 0, "step": span.step, "device": span.device}


def replace_span(span, start_s, end_s):  # type: ignore[no-untyped-def]
    """Return the span at another time."""
    return type(span)(span.device, span.lane, span.step, span.label, span.request, start_s, end_s)


def test_empty_trace_opens() -> None:
    """Without runs the trace is an empty list of events."""
    assert json.loads(dump_trace(None, None))["traceEvents"] == []


def test_chart_and_trace_alone(tmp_path: Path) -> None:
    """The comparison and the trace can be written without a page."""
    bundle = make_bundle()
    write_chart(tmp_path / "c.png", bundle.comparison, reference=(0.2, "single"))
    write_trace(tmp_path / "t.json", bundle)
    assert {path.name for path in tmp_path.iterdir()} == {"c.png", "t.json"}


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """A report cannot go where a file is: one line that names it, and nothing half-written."""
    (tmp_path / "out").write_text("taken")
    with pytest.raises(InputError, match=r"out.*cannot be written"):
        write_report(tmp_path / "out", make_bundle())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
