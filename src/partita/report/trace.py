"""Traces in the Chrome trace event format, which Perfetto and Chrome open."""

from __future__ import annotations

from typing import Any

import msgspec

from partita.execution import Report, Span
from partita.report import timeline

PROCESSES: tuple[timeline.Source, ...] = ("predicted", "measured")


def dump_trace(predicted: Report | None, measured: Report | None) -> bytes:
    """A JSON trace: one process per source, one thread per device lane, microseconds.

    Times count from the run's first feed; a load before it has a negative time.
    """
    events: list[dict[str, Any]] = []
    for pid, (source, run) in enumerate(zip(PROCESSES, (predicted, measured), strict=True), 1):
        if run is not None:
            events.append(_name(pid, 0, "process_name", source))
            events.append(_sort(pid, 0, "process_sort_index", pid))
            events += _list_threads(pid, run)
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": events}) + b"\n"


def _list_threads(pid: int, run: Report) -> list[dict[str, Any]]:
    lanes: dict[tuple[str, str], list[Span]] = {}
    for span in run.spans:
        lanes.setdefault((span.device, span.lane), []).append(span)
    events: list[dict[str, Any]] = []
    tid = 0
    for key in timeline.sort_lanes([run], lanes):
        for number, row in enumerate(timeline.separate(lanes[key]), start=1):
            tid += 1
            name = timeline.name_row(*key)
            events.append(
                _name(pid, tid, "thread_name", f"{name} {number}" if number > 1 else name)
            )
            events.append(_sort(pid, tid, "thread_sort_index", tid))
            events += _list_events(pid, tid, row)
    return events


def _list_events(pid: int, tid: int, spans: list[Span]) -> list[dict[str, Any]]:
    """Complete events; each begins no earlier than the last one ended, so none nest."""
    events = []
    free_us = float("-inf")
    for span in spans:
        start_us = max(round(span.start_s * 1e6, 3), free_us)
        free_us = max(round(span.end_s * 1e6, 3), start_us)
        events.append(
            {
                "name": span.label or span.lane,
                "cat": timeline.kind_of(span.lane),
                "ph": "X",
                "ts": start_us,
                "dur": round(free_us - start_us, 3),
                "pid": pid,
                "tid": tid,
                "args": {"request": span.request, "step": span.step, "device": span.device},
            }
        )
    return events


def _name(pid: int, tid: int, kind: str, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def _sort(pid: int, tid: int, kind: str, index: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"sort_index": index}}
