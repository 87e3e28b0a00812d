"""Runs and changes of plan in replies, with the same keys in every command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import RenderableType

from partita.cli.output import Reply
from partita.cluster import Cluster
from partita.execution import Change, Report
from partita.execution.critical import share_out
from partita.report import draw_table
from partita.report.changes import tabulate_changes

#: Beside a comparison with the network in a plan's own bits, which says nothing of what they lose.
BITS_ASIDE = (
    "Bits:        what they cost is no part of this: quantize says it,"
    " or plan and compare with --samples"
)


def describe_report(report: Report) -> dict[str, Any]:
    """What ``plan``, ``simulate`` and ``run`` say of a run."""
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
            {"name": use.name, "busy_s": use.busy_s, "peak_memory_bytes": use.peak_memory_bytes}
            for use in report.devices
        ],
        "links": [
            {"from": use.source, "to": use.target, "bytes": use.bytes, "busy_s": use.busy_s}
            for use in report.links
        ],
        "queues": [
            {"device": use.device, "lane": use.lane, "found": list(use.found)}
            for use in report.queues
        ],
        "steps": [msgspec.to_builtins(use) for use in report.steps],
        "critical_path": [
            {"kind": kind, "where": list(where), "seconds": seconds}
            for (kind, where), seconds in share_out(report).items()
        ],
    }


def add_notes(reply: Reply, cluster: Cluster, end_s: float) -> None:
    """Add a line for each group of traces that ended before the run did."""
    ended: dict[float, list[str]] = {}
    for link in cluster.links:
        if link.trace and link.trace[-1][0] < end_s:
            ended.setdefault(link.trace[-1][0], []).append(f"{link.source} → {link.target}")
    for last_s, links in sorted(ended.items()):
        note = (
            f"of {_name_some(links)} the last change is at {last_s:.3g} s, the run took"
            f" {end_s:.3g} s: the last rate held to the end"
        )
        reply.payload.setdefault("notes", []).append(f"Traces: {note}")
        reply.shown.append(f"Traces:      {note}")


def add_speeds(reply: Reply, devices: Sequence[str]) -> None:
    """Say why computing takes another time than predicted on devices that a lab ran, if any."""
    if not devices:
        return
    note = (
        f"not emulated in speed: {', '.join(devices)}. They compute as fast as this machine, over"
        " slow_down, and are priced otherwise; --profile FILE, this machine's profile of the model,"
        " prices devices of a kind as the lab runs them"
    )
    reply.payload.setdefault("notes", []).append(f"Lab: {note}")
    reply.shown.append(f"Lab:         {note}")


def _name_some(links: Sequence[str]) -> str:
    return links[0] if len(links) == 1 else f"{links[0]} and {len(links) - 1} more"


def describe_changes(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Changes of plan as JSON."""
    return [
        {
            "at_s": change.at_s,
            "why": change.why,
            "outcome": change.outcome,
            "detail": change.detail,
            "search_s": change.search_s,
            "switched_s": change.switched_s,
            "predicted_s": {"old": change.predicted_old_s, "new": change.predicted_new_s},
            "measured_s": {"old": change.measured_old_s, "new": change.measured_new_s},
            "fed_again": change.again,
            "outage_s": change.outage_s,
        }
        for change in changes
    ]


def show_changes(changes: Sequence[Change]) -> list[RenderableType]:
    """What people see of changes of plan."""
    if not changes:
        return ["Changes:     none; nothing drifted for long enough"]
    return [draw_table(tabulate_changes(changes))]
