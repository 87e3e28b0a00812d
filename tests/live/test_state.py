"""Totals of workers become what is going on."""

from __future__ import annotations

import msgspec
import pytest
from tests.live.samples import DEVICES, replay, sample_of, scene_of, stats_of

from partita.execution import Change
from partita.leader import Lost
from partita.live import LiveState
from partita.worker.messages import LaneQueue

SCENE = scene_of(*DEVICES)


def test_shares_and_rates_are_those_since_the_sample_before() -> None:
    """What was done before anybody looked does not count, nor is it known at first."""
    state = LiveState()
    first = {"camera": stats_of(100.0, {"recorder": 5000}), "recorder": stats_of(7.0)}
    seen = state.fold(sample_of(10.0, first, answers=50), SCENE)
    assert [view.busy for view in seen.devices] == [None, None]
    assert seen.images_per_s is None
    later = {"camera": stats_of(100.5, {"recorder": 5800}), "recorder": stats_of(7.9)}
    seen = state.fold(sample_of(11.0, later, answers=54, latencies_s=(0.1, 0.3)), SCENE)
    assert [view.busy for view in seen.devices] == pytest.approx([0.5, 0.9])
    assert [view.expected for view in seen.devices] == [0.5, 0.5]
    assert seen.images_per_s == 4.0
    assert (seen.p50_s, seen.p99_s) == (0.1, 0.3)
    (link,) = seen.links
    assert (link.source, link.target, link.bytes_per_s) == ("camera", "recorder", 800.0)
    assert (link.load, link.expected) == (0.8, 0.5)


def test_old_samples_leave_the_window() -> None:
    """A device that stopped computing is idle within some seconds, however long it was busy."""
    state = LiveState()
    for at_s in range(20):
        busy = {"camera": stats_of(float(min(at_s, 10))), "recorder": stats_of()}
        seen = state.fold(sample_of(float(at_s), busy), None)
        if at_s == 10:
            assert seen.devices[0].busy == 1.0
    assert seen.devices[0].busy == 0.0


def test_slow_requests_are_seen_more_than_once() -> None:
    """Where a request takes ten seconds, shares are those of some of them."""
    state = LiveState()
    for turn in range(60):
        at_s, done = turn * 0.5, turn // 20
        busy = {"camera": stats_of(5.0 * done), "recorder": stats_of()}
        latencies_s = (10.0,) if turn % 20 == 0 and turn else ()
        seen = state.fold(sample_of(at_s, busy, answers=done, latencies_s=latencies_s), None)
    assert seen.devices[0].busy == pytest.approx(10.0 / 25.0)
    assert seen.images_per_s == pytest.approx(2 / 25.0)


def test_a_new_epoch_begins_anew() -> None:
    """Totals of another epoch are no progress of this one; latencies are those of one plan."""
    state = LiveState()
    old = {"camera": stats_of(50.0), "recorder": stats_of()}
    state.fold(sample_of(1.0, old, latencies_s=(5.0,)), SCENE)
    new = {"camera": stats_of(0.1), "recorder": stats_of()}
    seen = state.fold(sample_of(2.0, new, plan="q", epoch=2), SCENE)
    assert seen.devices[0].busy is None
    assert seen.p50_s is None
    newer = {"camera": stats_of(0.6), "recorder": stats_of()}
    seen = state.fold(sample_of(3.0, newer, plan="q", epoch=2, latencies_s=(1.0,)), SCENE)
    assert seen.devices[0].busy == pytest.approx(0.5)
    assert seen.p50_s == 1.0


def test_counts_go_on_where_a_leader_takes_the_place_of_another() -> None:
    """Its answers count from none: no rate is below zero, and what was counted stays."""
    state = LiveState()
    idle = {"camera": stats_of(), "recorder": stats_of()}
    old = sample_of(1.0, idle, answers=50, latencies_s=(5.0,), outcomes={"recovered": 2})
    state.fold(old, SCENE)
    seen = state.fold(sample_of(2.0, idle, answers=3, epoch=7), SCENE)
    assert (seen.images_per_s, seen.p50_s, seen.answers) == (None, None, 53)
    newer = sample_of(3.0, idle, answers=5, epoch=7, outcomes={"recovered": 1, "ended": 1})
    seen = state.fold(newer, SCENE)
    assert (seen.images_per_s, seen.answers) == (2.0, 55)
    assert seen.outcomes == {"recovered": 3, "ended": 1}


def test_states_say_who_computes_is_silent_lost_or_idle() -> None:
    """A device of the plan that does not answer is silent; one that is given up is lost."""
    scene = scene_of("camera", "recorder", "spare", "gone")
    lost = Lost(("gone",))
    seen = LiveState().fold(sample_of(0.0, {"camera": stats_of()}, lost=lost), scene)
    states = {view.name: view.state for view in seen.devices}
    assert states == {"camera": "runs", "recorder": "silent", "spare": "idle", "gone": "lost"}


def test_queues_are_the_mean_of_what_steps_found_since() -> None:
    """Of four steps two found nobody, one found one other and one found four."""
    state = LiveState()

    def fold(at_s: float, *found: int) -> float:
        stats = stats_of(queues=(LaneQueue("receive", (9, 9, 9, 9)), LaneQueue("compute", found)))
        return state.fold(sample_of(at_s, {"camera": stats}), None).devices[0].queue

    fold(0.0, 100, 100, 100, 100)
    assert fold(1.0, 102, 101, 100, 101) == (1 + 4) / 4


def test_the_bottleneck_is_named_with_what_would_gain() -> None:
    """The busiest lane is named as measured; what simulation said goes with the same lane only."""
    advice = ((("recorder",), "one more board like it would give 1.3x"),)
    scene = msgspec.structs.replace(SCENE, advice=advice)
    state = LiveState()
    idle = {"camera": stats_of(), "recorder": stats_of()}
    assert state.fold(sample_of(0.0, idle), scene).advice == ()
    seen = state.fold(sample_of(1.0, {**idle, "recorder": stats_of(0.87)}), scene)
    assert seen.advice == (
        "recorder is the bottleneck: 87 % busy; one more board like it would give 1.3x",
    )
    seen = state.fold(sample_of(2.0, {"camera": stats_of(1.5), "recorder": stats_of(0.9)}), scene)
    assert seen.advice == ("camera is the bottleneck: 75 % busy",)


def test_where_no_lane_is_busy_none_is_a_bottleneck() -> None:
    """Requests come too seldom then, and more of a device would gain nothing."""
    state = LiveState()
    state.fold(sample_of(0.0, {"camera": stats_of(), "recorder": stats_of()}), SCENE)
    seen = state.fold(sample_of(1.0, {"camera": stats_of(0.2), "recorder": stats_of(0.6)}), SCENE)
    assert seen.advice == ()


def test_events_are_changes_the_newest_first() -> None:
    """A loss, then a switch, each with what came of it."""
    changes = (
        Change(1.0, "'a' is lost", "recovered", "without device 'a'", again=2, answered_s=1.5),
        Change(4.0, "link a -> b is slower", "switched"),
    )
    seen = LiveState().fold(sample_of(5.0, {}, changes=changes), None)
    assert [(event.at_s, event.kind) for event in seen.events] == [
        (4.0, "switched"),
        (1.0, "recovered"),
    ]
    words = "recovered: without device 'a', 2 requests fed again, next answer after 500 ms"
    assert words in seen.events[1].text


def test_many_devices_are_seen_whole_and_links_as_far_as_can_be_read() -> None:
    """Of 32 devices that all send to each other the busiest links are listed, all are counted."""
    names = tuple(f"d{n}" for n in range(32))
    state, take = LiveState(), replay(names)
    for _ in range(5):
        seen = state.fold(take(state.answers), None)
    assert len(seen.devices) == 32
    assert seen.link_count == 32 * 31
    rates = [link.bytes_per_s for link in seen.links]
    assert rates == sorted(rates, reverse=True)
    assert len(rates) < 100
    busy = [view.busy or 0.0 for view in seen.devices]
    assert busy == sorted(busy)
    for _ in range(5):
        seen = state.fold(take(state.answers), None)
    assert seen.devices[-1].state == "lost"
    assert [event.kind for event in seen.events] == ["recovered"]
    msgspec.json.encode(seen)
