"""Offsets of clocks, and costs of links."""

from __future__ import annotations

import random

from partita.cluster import Device
from partita.lab import memory_lab
from partita.leader import estimate_offset, measure_link


def test_the_offset_is_found_within_half_of_the_quickest_trip() -> None:
    """With uneven, random delays the estimate is off by at most half of the shortest round trip."""
    rng = random.Random(4)
    now, trips = 100.0, []

    def read_s() -> float:
        nonlocal now
        there, back = rng.uniform(0.001, 0.02), rng.uniform(0.001, 0.02)
        trips.append(there + back)
        now += there
        theirs = now - 37.0
        now += back
        return theirs

    offset_s = estimate_offset(read_s, lambda: now)
    assert abs(offset_s - 37.0) <= min(trips) / 2


def test_a_link_is_measured_between_two_workers() -> None:
    """Every size gets a sample with the asked count."""
    with memory_lab([Device("a"), Device("b")]) as lab:
        samples = measure_link(lab.endpoint, "a", "b", [10, 100_000], repeats=4)
    assert [(s.size_bytes, s.count) for s in samples] == [(10, 4), (100_000, 4)]
    assert all(sample.spread_s >= 0 for sample in samples)
