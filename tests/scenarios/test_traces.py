"""The hour of changing throughput is what the paper describes, and comes from a seed."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean

import pytest
from tools.draw_traces import TraceOptions, draw_traces, name_traces, write_trace

from partita.cluster import load_cluster
from partita.scenarios import find_scenario


def test_shipped_traces_are_those_of_seed_0() -> None:
    """Drawing again gives the shipped files, byte for byte."""
    folder = find_scenario("dynamic").parent
    for stem, trace in name_traces(draw_traces()).items():
        assert (folder / f"{stem}.csv").read_text(encoding="utf-8") == write_trace(trace)


@pytest.mark.parametrize("seed", range(5))
def test_averages_change_after_20_and_40_minutes(seed: int) -> None:
    """Four traces of an hour; each third has another level, and swings about it."""
    traces = draw_traces(TraceOptions(seed=seed))
    assert len(traces) == 4
    for trace in traces:
        assert (trace[0][0], trace[-1][0]) == (0, 3590)
        thirds = [[rate for _, rate in trace[part * 120 : part * 120 + 120]] for part in range(3)]
        levels = [mean(third) for third in thirds]
        for before, after in pairwise(levels):
            assert max(before, after) / min(before, after) > 1.2
        assert all(max(third) / min(third) > 2 for third in thirds)


def test_links_follow_the_slower_end() -> None:
    """At any time the link between two devices has the lower of their rates."""
    cluster = load_cluster("scenario:dynamic")
    for time_s in (0.0, 605.0, 1200.0, 3599.0):
        ends = []
        for name in ("nano-1", "nano-4"):
            link = cluster.link("phone", name)
            assert link is not None
            ends.append(link.bandwidth_at(time_s))
        between = cluster.link("nano-1", "nano-4")
        assert between is not None
        assert between.bandwidth_at(time_s) == min(ends)
