"""The end of a session, whatever goes on beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from tests.leader.test_replan_controller import OPTIONS, Plans, start

from partita.execution import Conditions
from partita.execution.adapt import Proposed
from partita.leader import replan_controller, session

#: Nothing is waited for longer.
PATIENCE_S = 20.0


class Held:
    """Something that begins, and ends when it is let go."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()

    def hold(self, *_: object) -> None:
        """Say that it begins, and wait."""
        self.begun.set()
        assert self.let_go.wait(PATIENCE_S)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Contexts that end with the test."""
    with ExitStack() as entered:
        yield entered


class SlowPlans(Plans):
    """A search that takes as long as it is held."""

    def __init__(self, held: Held) -> None:
        super().__init__(("d1", 1.0))
        self._held = held

    def propose(self, conditions: Conditions) -> Proposed:
        """The running plan, late."""
        self._held.hold()
        return super().propose(conditions)


@pytest.mark.parametrize("what", ["probe", "search"])
def test_a_session_ends_though_a_search_or_a_probe_goes_on(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A message to a worker that hangs may take minutes; what it gives is not used any more."""
    monkeypatch.setattr(replan_controller, "SAMPLE_S", 0.005)
    monkeypatch.setattr(session, "_CLOSE_S", 0.05)
    held = Held()
    stack.callback(held.let_go.set)
    if what == "probe":
        monkeypatch.setattr(replan_controller, "measure_rate", held.hold)
        plans, options = Plans(("d1", 1.0)), replace(OPTIONS, probe_s=0.01)
    else:
        plans, options = SlowPlans(held), replace(OPTIONS, every_s=0.01)
    _, running = start(stack, plans, options)
    running.begin_traces()
    assert held.begun.wait(PATIENCE_S)
    running.close()
    assert not held.let_go.is_set()
    assert running.has_stragglers


def test_a_session_that_has_nothing_under_way_leaves_no_thread(stack: ExitStack) -> None:
    """Its threads have ended when it is closed."""
    before = set(threading.enumerate())
    _, running = start(stack, Plans(("d1", 1.0)))
    running.begin_traces()
    running.close()
    assert not running.has_stragglers
    left = set(threading.enumerate()) - before
    assert not [each.name for each in left if each.name.startswith("leader")]
