"""Figure 11 of DistrEdge: the throughput that four devices have for an hour."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean

from partita.cluster import Cluster
from partita.reproduce.bench import Bench, find_cluster
from partita.reproduce.distredge.setting import PAPER
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure

DYNAMIC = "dynamic"
HOUR_S = 3600.0
#: When average throughput changes, as the paper says.
CHANGES_S = (1200.0, 2400.0)
#: Averages that change by more than this factor change significantly: our reading, not tuned.
_CHANGE = 1.2
_MBIT = 8e-6


def thirds_of(cluster: Cluster, name: str) -> list[list[float]]:
    """A device's throughput with the requester in Mbit/s, in the three parts of the hour.

    A point each 10 s.
    """
    link = cluster.link(cluster.requester, name)
    if link is None:
        return [[], [], []]
    bounds = (0.0, *CHANGES_S, HOUR_S)
    return [
        [link.bandwidth_at(start + 10 * k) * _MBIT for k in range(int((stop - start) / 10))]
        for start, stop in pairwise(bounds)
    ]


@figure(PAPER, 11, "Throughput of a highly dynamic network")
def make_traces(bench: Bench) -> Drawn:
    """Four devices, an hour."""
    cluster = find_cluster(DYNAMIC)
    thirds = {name: thirds_of(cluster, name) for name in cluster.providers}
    rows: list[tuple[Cell, ...]] = [
        (name, *(f"{mean(part):.0f} ({min(part):.0f} to {max(part):.0f})" for part in parts))
        for name, parts in thirds.items()
    ]
    heads = ("device", "0 to 20 min", "20 to 40 min", "40 to 60 min")
    title = "Figure 11: throughput with the requester, Mbit/s: mean (least to most)"
    table = Table(title, heads, tuple(rows))
    factors = [
        max(before, after) / min(before, after)
        for parts in thirds.values()
        for before, after in pairwise(mean(part) for part in parts)
    ]
    ours = f"means change by factors of {min(factors):.1f} to {max(factors):.1f}"
    claim = Claim(
        "Traces", "averages change significantly at 20 and 40 minutes", ours, min(factors) > _CHANGE
    )
    minutes = tuple(k / 6 for k in range(360))
    series = {
        name: tuple(rate for part in parts for rate in part) for name, parts in thirds.items()
    }
    chart = Chart("Figure 11: throughput", "lines", minutes, series, "minutes", "Mbit/s")
    note = "The traces are drawn from seed 0 to the paper's description; it gives no numbers."
    return Drawn((table,), (claim,), (chart,), (note,))
