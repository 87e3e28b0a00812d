"""Spans of a run for OpenTelemetry: a trace per request, a span per step."""

from __future__ import annotations

from collections import defaultdict

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import TracerProvider
from opentelemetry.util.types import AttributeValue

from partita.execution import Report, Span

_NS = 1e9


def emit_spans(report: Report, begun_s: float, provider: TracerProvider | None = None) -> int:
    """Give the requests of a run to OpenTelemetry, and return how many.

    Args:
        report: With spans; those of loads belong to no request and are left out.
        begun_s: When the first input was fed, in seconds since the epoch of Unix.
        provider: Takes the spans and exports them; the process's own by default.
    """
    tracer = trace.get_tracer("partita", tracer_provider=provider)
    steps: defaultdict[int, list[Span]] = defaultdict(list)
    for span in report.spans:
        if span.request >= 0:
            steps[span.request].append(span)
    for request, spans in sorted(steps.items()):
        start_s = min(span.start_s for span in spans)
        end_s = max(start_s + report.latencies_s[request], max(span.end_s for span in spans))
        facts: dict[str, AttributeValue] = {
            "partita.request": request,
            "partita.planner": report.planner,
        }
        root = tracer.start_span(
            "request", Context(), start_time=_at(begun_s + start_s), attributes=facts
        )
        within = trace.set_span_in_context(root)
        for span in spans:
            _emit_step(tracer, within, span, begun_s)
        root.end(_at(begun_s + end_s))
    return len(steps)


def _emit_step(tracer: trace.Tracer, within: Context, span: Span, begun_s: float) -> None:
    facts: dict[str, AttributeValue] = {
        "partita.device": span.device,
        "partita.lane": span.lane,
        "partita.step": span.step,
        "partita.request": span.request,
    }
    step = tracer.start_span(
        span.label or span.lane, within, start_time=_at(begun_s + span.start_s), attributes=facts
    )
    step.end(_at(begun_s + span.end_s))


def _at(time_s: float) -> int:
    """Nanoseconds since the epoch of Unix."""
    return round(time_s * _NS)
