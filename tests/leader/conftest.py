"""What tests of the leader share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engine.test_slowed import VirtualClock
from tests.leader.monitored import Bench

from partita.errors import RunError
from partita.leader.patience import Patience


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench that ends with the test."""
    made = Bench(VirtualClock(), monkeypatch)
    yield made
    for monitor in made.monitors:
        monitor.tracker.fail(RunError("over"))
        monitor.close(Patience(5.0))
