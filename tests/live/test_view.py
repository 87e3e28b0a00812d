"""Snapshots are made when somebody asks, and shared by all who do."""

from __future__ import annotations

import pytest
from tests.engine.test_slowed import VirtualClock
from tests.leader.fakes import fake_time
from tests.live.samples import DEVICES, replay, scene_of

from partita.leader import Sample
from partita.live import LiveView, Scene, view


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """The view's clock, which a test turns."""
    turned = VirtualClock()
    monkeypatch.setattr(view, "time", fake_time(turned))
    return turned


def test_viewers_at_the_same_time_cost_one_sample(clock: VirtualClock) -> None:
    """Ten viewers within a tenth of a second see the same; a later one sees news."""
    taken: list[int] = []
    take = replay(DEVICES)

    def count(since: int) -> Sample:
        taken.append(since)
        return take(since)

    shared = LiveView(count, lambda plan: None)
    clock.time_s = 1.0
    seen = [shared.snapshot() for _ in range(10)]
    assert len(taken) == 1
    clock.time_s += 0.45
    assert shared.snapshot() is not seen[0]
    assert taken == [0, seen[0].answers]


def test_a_plan_is_described_once(clock: VirtualClock) -> None:
    """A prediction takes time: it is made when a plan is seen first."""
    described: list[str] = []

    def describe(plan: str) -> Scene:
        described.append(plan)
        return scene_of(*DEVICES)

    shared = LiveView(replay(DEVICES), describe)
    for _ in range(5):
        clock.time_s += 1.0
        assert shared.snapshot().title == "net on lab"
        assert shared.scene() is not None
    assert described == ["p"]


def test_what_a_viewer_notes_is_an_event_on_the_leaders_clock(clock: VirtualClock) -> None:
    """No leader can tell of its own loss; the note keeps its age beside the leader's events."""
    clock.time_s = 100.0
    shared = LiveView(replay(DEVICES), lambda plan: None)
    for _ in range(9):  # a device is lost at 2.0 on the leader's clock, which is at 4.0 then
        clock.time_s += 0.5
        now = shared.snapshot()
    clock.time_s += 0.25
    shared.note("led", "another one took its place")
    clock.time_s += 0.75
    now = shared.snapshot()
    assert [event.kind for event in now.events] == ["led", "recovered"]
    assert now.at_s - now.events[0].at_s == pytest.approx(0.75)
