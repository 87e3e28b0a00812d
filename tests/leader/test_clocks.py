"""Offsets of clocks."""

from __future__ import annotations

import random

from partita.leader import estimate_offset


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
