"""Offsets of clocks."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest
from tests.leader.fakes import FakeLab

from partita.host import clock_origin
from partita.leader import estimate_offset
from partita.leader.clocks import measure_offset
from partita.worker.messages import Clock


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


@pytest.mark.parametrize(("origin", "offset_s"), [("", 1e9), ("another machine", 1e9), (None, 0)])
def test_clocks_of_one_machine_are_one(origin: str | None, offset_s: float) -> None:
    """There nothing is estimated, however late messages are; None stands for this machine's."""
    lab, now_s = FakeLab("d0"), time.monotonic()
    origin = clock_origin() if origin is None else origin
    lab.workers["d0"].answers["clock"] = lambda body: Clock(now_s - 1e9, origin)
    assert measure_offset(lab.group, "d0") == pytest.approx(offset_s, abs=60)
    if not offset_s:
        assert measure_offset(lab.group, "d0") == 0


def test_a_machine_has_one_origin_of_its_clock() -> None:
    """Two processes of one machine give the same, which is known on Linux."""
    code = "from partita.host import clock_origin; print(clock_origin())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == clock_origin()
    assert bool(clock_origin()) == sys.platform.startswith("linux")
