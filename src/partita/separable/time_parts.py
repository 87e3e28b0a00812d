"""What an answer's time goes into, as figure 6 has it."""

from __future__ import annotations

from typing import Literal

from partita.execution import Report
from partita.execution.critical import typical_path

TimePart = Literal["compute", "copies", "first transmission", "aggregation", "requests"]
TIME_PARTS: tuple[TimePart, ...] = (
    "compute", "copies", "first transmission", "aggregation", "requests",
)  # fmt: skip


def time_parts(report: Report) -> dict[TimePart, float]:
    """Seconds of a typical answer by what it waited for; they add up to its latency.

    *Copies* is work on messages at both ends; *first transmission* what is on its way before
    anything is computed, the picture; *aggregation* waiting for features, or for the answer, that
    others send; *requests* the way between leader and requester. What is hidden behind computing
    is in none of them. Sums of features are computed, in one step with the block behind them.
    """
    seconds: dict[TimePart, float] = dict.fromkeys(TIME_PARTS, 0.0)
    has_computed = False
    for part in typical_path(report):
        has_computed |= part.kind == "compute"
        waiting: TimePart = "aggregation" if has_computed else "first transmission"
        named: dict[str, TimePart] = {
            "compute": "compute", "handle": "copies", "feed": "requests",
        }  # fmt: skip
        seconds[named.get(part.kind, waiting)] += part.seconds
    return seconds
