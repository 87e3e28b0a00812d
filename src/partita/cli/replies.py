"""Predicted and measured runs as JSON, with the same keys in every command."""

from __future__ import annotations

from typing import Any

from partita.execution import Report


def describe_report(report: Report) -> dict[str, Any]:
    """Return what ``plan``, ``simulate`` and ``run`` say of a run."""
    return {
        "planner": report.planner,
        "seed": report.seed,
        "latency_s": {
            "mean": report.mean_s,
            "p50": report.quantile_s(0.5),
            "p99": report.quantile_s(0.99),
        },
        "images_per_second": report.images_per_second,
        "devices": [
            {
                "name": use.name,
                "busy_s": use.busy_s,
                "peak_memory_bytes": use.peak_memory_bytes,
            }
            for use in report.devices
        ],
        "links": [
            {"from": use.source, "to": use.target, "bytes": use.bytes, "busy_s": use.busy_s}
            for use in report.links
        ],
    }
