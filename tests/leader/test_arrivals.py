"""Devices that are back: they are used once those that they work with reach them again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from partita.errors import RunError
from partita.execution.adapt import Joined
from partita.leader import arrivals
from partita.leader.arrivals import Arrivals
from partita.leader.losses import Lost
from partita.leader.patience import Patience

THERE = {"d0", "d1", "d2", "d3", "leader"}


@pytest.fixture
def back(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Arrivals, list[str]]]:
    """Who takes devices in, and what it does; d3 is lost, and the first three ways fail."""
    done: list[str] = []

    def time_flows(endpoint: Any, source: str, flow: Any, **_: object) -> None:
        done.append(f"{source} to {flow.target}")
        if len(done) <= 3:
            raise RunError("Device 'd2' cannot be reached.")

    monkeypatch.setattr(arrivals, "time_flows", time_flows)
    monkeypatch.setattr(arrivals, "_LOOK_S", 0.001)
    monitor = SimpleNamespace(arrived=deque(), lost=Lost(("d2", "d3")))
    monitor.take_back = lambda device: done.append(f"{device} is used")
    group = SimpleNamespace(endpoint=SimpleNamespace(peers=lambda: THERE))
    planning = SimpleNamespace(
        roster=("d0", "d1", "d2", "d3"), set_lost=lambda lost: None, assumed="as planned"
    )
    made = Arrivals(monitor, group, planning)  # type: ignore[arg-type]
    yield made, done
    assert made.close(Patience())


def test_a_device_is_used_once_all_that_are_there_reach_it(
    back: tuple[Arrivals, list[str]],
) -> None:
    """Connections are made anew, each in its time; requests would wait for the slowest."""
    taken, done = back
    assert taken._take_in("d2") == Joined("d2", "as planned")  # type: ignore[arg-type]
    ways = ["d2 to d0", "d0 to d2", "d2 to d1", "d1 to d2"]
    assert done == [*ways[:1] * 3, *ways, "d2 is used"]


def test_a_link_that_stays_broken_keeps_no_device_away(
    back: tuple[Arrivals, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while it is used all the same, and planned around the link where it is needed."""
    taken, done = back
    monkeypatch.setattr(arrivals, "_WAY_S", 0.0)
    assert taken._take_in("d2") is not None
    assert done == ["d2 is used"]
