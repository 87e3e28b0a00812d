"""The lane that is busy for most of a run: what bounds its throughput, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping

from partita.execution import Report
from partita.report.tables import name_link

#: A device that computes, or the two ends of a link.
Where = tuple[str, ...]


def busy_shares(run: Report) -> dict[Where, float]:
    """The share of a run for which each device computes and each link carries.

    Those of which nobody knows are left out, as are all of a run without a length.
    """
    if run.makespan_s <= 0:
        return {}
    busy_s: dict[Where, float | None] = {(use.name,): use.busy_s for use in run.devices}
    busy_s |= {(use.source, use.target): use.busy_s for use in run.links}
    return {where: s / run.makespan_s for where, s in busy_s.items() if s is not None}


def find_bottleneck(shares: Mapping[Where, float]) -> Where | None:
    """The lane with the largest share, the first among equals; None where none has any."""
    largest = max(shares, key=lambda where: shares[where], default=None)
    return largest if largest is not None and shares[largest] > 0 else None


def describe_bottleneck(shares: Mapping[Where, float]) -> str:
    """The bottleneck in words; empty where there is none.

    >>> describe_bottleneck({("recorder",): 0.874, ("camera", "recorder"): 0.2})
    'recorder is the bottleneck: 87 % busy'
    """
    where = find_bottleneck(shares)
    if where is None:
        return ""
    name = where[0] if len(where) == 1 else f"link {name_link(*where)}"
    return f"{name} is the bottleneck: {100 * min(shares[where], 1.0):.0f} % busy"
