"""The report and how it adds up."""

from __future__ import annotations

import pytest
from tests.program_builder import chain

from partita.execution import Report, ReportBuilder, weight_bytes
from partita.program import Compute, FragmentInfo, Program, Send


def report_of(*latencies_s: float) -> Report:
    """Return a report with nothing but latencies."""
    return Report("", 0, latencies_s, 1.0, (), ())


@pytest.mark.parametrize(
    ("fraction", "expected"), [(0.0, 1.0), (0.25, 1.0), (0.26, 2.0), (0.5, 2.0), (1.0, 4.0)]
)
def test_quantile_is_the_nearest_rank(fraction: float, expected: float) -> None:
    """The smallest latency that at least the fraction of requests do not exceed."""
    assert report_of(4.0, 2.0, 1.0, 3.0).quantile_s(fraction) == expected


def test_builder_adds_busy_times_and_bytes() -> None:
    """Compute spans count for the device, send spans and their bytes for the link."""
    program = chain(2, 2)
    builder = ReportBuilder(program, planner="equal", seed=3)
    steps = {type(s).__name__ + p.device: s.id for p in program.devices for s in p.steps}
    builder.record(steps["Computed0"], 0, 0.0, 2.0)
    builder.record(steps["Sendd0"], 0, 2.0, 2.5)
    builder.record(steps["Computed0"], 1, 3.0, 4.0)
    builder.record(steps["Sendd0"], 1, 4.0, 4.5)
    report = builder.build([2.5, 2.0], 4.5, {"d0": 32})
    assert (report.planner, report.seed, report.images_per_second) == ("equal", 3, 2 / 4.5)
    first, second = report.devices
    assert (first.busy_s, first.peak_memory_bytes) == (3.0, 32)
    assert (second.busy_s, second.peak_memory_bytes) == (0.0, 0)
    there, back = report.links
    assert (there.source, there.bytes, there.busy_s) == ("d0", 32, 1.0)
    assert (back.source, back.bytes, back.busy_s) == ("d1", 0, 0.0)
    assert [(span.lane, span.label) for span in report.spans[:2]] == [
        ("compute", "make t0"),
        ("send:d1", "t0"),
    ]


def test_builder_without_spans_keeps_the_sums() -> None:
    """Switching the trace off changes no figure."""
    program = chain(1, 1)
    builder = ReportBuilder(program, keep_spans=False)
    (compute,) = (s.id for s in program.device("d0").steps if isinstance(s, Compute))
    builder.record(compute, 0, 0.0, 1.0)
    report = builder.build([1.0], 1.0, {})
    assert report.spans == ()
    assert report.devices[0].busy_s == 1.0
    assert not any(isinstance(s, Send) for s in program.device("d0").steps)


def with_fragments(*infos: FragmentInfo) -> Program:
    """Return a one-device program with these fragments."""
    program = chain(len(infos), 1)
    return Program("", "", "d0", program.inputs, program.outputs, (), infos, program.devices)


def test_shared_blobs_count_once() -> None:
    """Two fragments that share a blob hold it once; unknown sizes fall back to whole fragments."""
    sized = with_fragments(
        FragmentInfo("", ("a", "b"), 0, 30, (10, 20)), FragmentInfo("", ("b", "c"), 0, 25, (20, 5))
    )
    assert weight_bytes(sized, "d0") == 35
    unsized = with_fragments(FragmentInfo("", ("a",), 0, 10), FragmentInfo("", ("a",), 0, 10))
    assert weight_bytes(unsized, "d0") == 10
    nameless = with_fragments(FragmentInfo("", (), 0, 10), FragmentInfo("", (), 0, 10))
    assert weight_bytes(nameless, "d0") == 20
