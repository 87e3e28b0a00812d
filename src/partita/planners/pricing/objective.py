"""How plans are ranked: what the objective makes of an estimate."""

from __future__ import annotations

from typing import NamedTuple

from partita.cluster import Cluster
from partita.planners.options import Objective
from partita.planners.result import Estimate

#: The objective first, then what breaks ties; less is better. A plan that does not fit in memory
#: scores infinity and the bytes that are missing: what fits comes first, then what nearly fits.
Score = tuple[float, float]
#: What a plan scores that breaks another rule.
IMPOSSIBLE: Score = (float("inf"), float("inf"))


class RankKey(NamedTuple):
    """What a search compares.

    Attributes:
        score: The objective, and what breaks ties.
        lateness: How late the steps are, for drafts that are equal but for it; 0 where unknown.
        messages: Pieces that are sent.
    """

    score: Score
    lateness: float
    messages: int


def rate(estimate: Estimate, objective: Objective, cluster: Cluster) -> Score:
    """An estimate's objective, and its latency (or messages) to break ties."""
    if objective == "throughput":
        return (estimate.period_s, estimate.latency_s)
    if objective == "memory":
        shares = (
            used / cluster.device(name).memory_bytes for name, used in estimate.memory_bytes.items()
        )
        return (max(shares, default=0.0), estimate.latency_s)
    if objective == "energy":
        return (estimate.energy_joules, estimate.latency_s)
    return (estimate.latency_s, estimate.messages)
