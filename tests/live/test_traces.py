"""Spans of a run, as OpenTelemetry keeps them."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.report.samples import make_report

from partita.live import emit_spans


def test_each_request_is_a_trace_of_its_steps() -> None:
    """Steps lie within their request, at the times of the run; loads belong to none."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    run = make_report(requests=3)
    assert emit_spans(run, 1000.0, provider) == 3
    spans = exporter.get_finished_spans()
    roots = {span.context.span_id: span for span in spans if span.parent is None}
    assert len(roots) == 3
    assert len({span.context.trace_id for span in roots.values()}) == 3
    steps = [span for span in spans if span.parent is not None]
    assert len(steps) == sum(span.request >= 0 for span in run.spans)
    for step in steps:
        root = roots[step.parent.span_id]
        assert root.start_time <= step.start_time <= step.end_time <= root.end_time
    for root, latency_s in zip(roots.values(), run.latencies_s, strict=True):
        assert (root.end_time - root.start_time) / 1e9 == pytest.approx(latency_s, abs=2e-3)
    assert min(span.start_time for span in spans) / 1e9 == pytest.approx(1000.0, abs=0.01)
    devices = {span.attributes["partita.device"] for span in steps}
    assert devices == {use.name for use in run.devices}
