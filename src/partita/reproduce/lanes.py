"""How long providers compute and communicate, from the spans of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from partita.cluster import Cluster
from partita.execution import Report

Interval = tuple[float, float]
_SEND = "send:"


def compute_times(report: Report, providers: Sequence[str]) -> dict[str, float]:
    """The seconds that each provider computes; 0 for those without work."""
    busy = {use.name: use.busy_s or 0.0 for use in report.devices}
    return {name: busy.get(name, 0.0) for name in providers}


def transmission_times(report: Report, cluster: Cluster) -> dict[str, float]:
    """Per provider, the seconds for which at least one piece to or from it is under way.

    From the start of its sending to its arrival, as the paper measures transmission; pieces that
    travel at the same time count once.

    Args:
        report: A run of one request, with spans.
        cluster: The links, for how long a piece travels after its last byte was sent.
    """
    under_way: dict[str, list[Interval]] = {name: [] for name in cluster.providers}
    for span in report.spans:
        if not span.lane.startswith(_SEND):
            continue
        target = span.lane.removeprefix(_SEND)
        link = cluster.link(span.device, target)
        arrived_s = span.end_s + (link.latency_s if link else 0.0)
        for name in {span.device, target} & set(under_way):
            under_way[name].append((span.start_s, arrived_s))
    return {name: cover_s(intervals) for name, intervals in under_way.items()}


def cover_s(intervals: Iterable[Interval]) -> float:
    """The length of the union of intervals.

    >>> cover_s([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
