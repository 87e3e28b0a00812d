"""Presence, heartbeats and calls of a session's workers."""

from __future__ import annotations

import threading

import pytest
from tests.engine.test_slowed import VirtualClock
from tests.leader.fakes import FakeLab, FakeWorker, fake_time, gone, info_of

from partita.errors import RunError
from partita.fabric import Failure
from partita.leader import heartbeats, worker_group
from partita.worker.messages import Clock, OfEpoch, encode_message

#: No thread is waited for longer.
PATIENCE_S = 20.0


class Log:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.lost: list[tuple[str, str]] = []
        self.found: list[str] = []
        self.failures: list[Failure] = []
        self.faults: list[RunError] = []

    def on_lost(self, device: str, why: str) -> None:
        """Keep a loss."""
        self.lost.append((device, why))

    def on_found(self, device: str) -> None:
        """Keep a coming."""
        self.found.append(device)

    def on_failure(self, failure: Failure) -> None:
        """Keep a failure."""
        self.failures.append(failure)

    def on_fault(self, error: RunError) -> None:
        """Keep a fault."""
        self.faults.append(error)


def listen(lab: FakeLab, clock: VirtualClock, seconds: float) -> None:
    """Let time pass in which the leader hears its own heartbeats."""
    for _ in range(round(seconds / 0.1)):
        clock.time_s += 0.1
        lab.group.beat()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """The group's clock."""
    clock = VirtualClock()
    for module in (worker_group, heartbeats):
        monkeypatch.setattr(module, "time", fake_time(clock))
    return clock


@pytest.fixture
def lab(clock: VirtualClock) -> FakeLab:
    """Two workers."""
    return FakeLab("d0", "d1")


def test_missing_workers_are_named_with_those_that_are_there(lab: FakeLab) -> None:
    """One or several, the message says how to start the first of them."""
    lab.group.wait(0.0)
    lab.group.add(["d2"])
    with pytest.raises(RunError, match="Worker 'd2' is not there after 0 s: found 'd0', 'd1'"):
        lab.group.wait(0.0)
    lab.group.add(["d3"])
    with pytest.raises(RunError, match=r"Workers 'd2', 'd3' are not there .* --name d2 "):
        lab.group.wait(0.0)


def test_a_worker_of_another_protocol_is_not_greeted(lab: FakeLab) -> None:
    """One of another version is, and one that accepts the greeting all the same is refused."""
    assert lab.group.greet()["d1"] == info_of("d1")
    lab.workers["d1"].info = info_of("d1", version="0.0.1")
    assert lab.group.greet()["d1"].version == "0.0.1"
    lab.workers["d1"].info = info_of("d1", version="0.0.1", protocol=0)
    with pytest.raises(RunError, match=r"'d1' is of another version.*partita 0\.0\.1"):
        lab.group.greet()


def test_silence_counts_from_the_last_beat(lab: FakeLab, clock: VirtualClock) -> None:
    """Who is expected and says nothing is silent; who beats, or is idle or gone, is not."""
    lab.group.beats.expect(["d0", "d1"])
    listen(lab, clock, 2.0)
    lab.workers["d1"].beat(1, 0)
    assert lab.group.beats.silent(1.75) == {"d0": pytest.approx(2.0)}
    assert lab.group.beats.silent(2.1) == {}
    listen(lab, clock, 3.0)
    assert lab.group.beats.silent(1.75) == {
        "d0": pytest.approx(5.0),
        "d1": pytest.approx(3.0),
    }
    lab.group.beats.excuse(["d0"])
    assert set(lab.group.beats.silent(1.75)) == {"d1"}
    lab.group.remove("d1")
    assert lab.group.beats.silent(0.0) == {}
    assert lab.group.names == ("d0",)


def test_silence_counts_while_the_leader_listens(lab: FakeLab, clock: VirtualClock) -> None:
    """Of a pause of its own little counts, however long and often; who is gone is missed still."""
    lab.group.beats.expect(["d0", "d1"])
    for _ in range(20):
        clock.time_s += 60.0
        assert "d0" not in lab.group.beats.silent(1.75)
        lab.workers["d0"].beat(1, 0)  # sent meanwhile, and taken now
        listen(lab, clock, 0.1)
    assert set(lab.group.beats.silent(1.75)) == {"d1"}


def test_a_reader_that_is_behind_has_heard_nobody(lab: FakeLab, clock: VirtualClock) -> None:
    """Notes that wait to be taken may be heartbeats: the leader's own one waits behind them."""
    lab.group.beats.expect(["d0"])
    clock.time_s += 1.0  # the leader's loop has run ten times, and its notes are not taken
    assert not lab.group.beats.silent(0.75)
    listen(lab, clock, 1.0)
    assert set(lab.group.beats.silent(0.75)) == {"d0"}


def test_a_beat_of_a_worker_without_an_epoch_is_not_expected_again(
    lab: FakeLab, clock: VirtualClock
) -> None:
    """A late beat of an excused worker must not make its later silence a loss."""
    lab.group.beats.expect(["d0"])
    lab.group.beats.excuse(["d0"])
    lab.workers["d0"].beat(1, 4)
    listen(lab, clock, 60.0)
    assert lab.group.beats.silent(1.75) == {}


def test_progress_is_a_change_of_the_count_of_steps(lab: FakeLab, clock: VirtualClock) -> None:
    """A worker that beats but finishes nothing makes no progress."""
    began_s = lab.group.progress_s
    listen(lab, clock, 1.0)
    lab.workers["d0"].beat(1, 3)
    assert lab.group.progress_s == pytest.approx(began_s + 1.0)
    listen(lab, clock, 1.0)
    lab.workers["d0"].beat(1, 3)
    assert lab.group.progress_s == pytest.approx(began_s + 1.0)
    lab.workers["d1"].beat(1, 3)
    assert lab.group.progress_s == pytest.approx(began_s + 2.0)


def test_a_worker_that_left_is_not_called(lab: FakeLab) -> None:
    """Its loss is the error, at once, also for a call under way; when it is back it is called."""
    seen = lab.workers["d0"].seen

    def leave(body: bytes) -> RunError:
        lab.fabric.tell_watchers("d0", False)
        return gone("d0")

    lab.workers["d0"].answers["clock"] = leave
    for _ in range(2):
        with pytest.raises(RunError, match=r"'d0' was lost before the plan ran .asked for: clock"):
            lab.group.ask("d0", "clock", OfEpoch(0), Clock)
    assert seen == ["clock"]
    lab.fabric.tell_watchers("d0", True)
    lab.workers["d0"].answers.clear()
    assert lab.group.ask("d0", "clock", OfEpoch(0), Clock) == Clock(0.0)


def test_an_error_of_a_worker_that_is_there_is_its_own(lab: FakeLab) -> None:
    """A refusal is passed on as it is; of several workers the first one's counts."""
    lab.workers["d1"].answers["stop"] = lambda body: RunError("no")
    with pytest.raises(RunError, match="Device 'd1': no"):
        lab.group.each(lambda name: lab.group.tell(name, "stop", OfEpoch(0)))
    assert lab.workers["d0"].seen == ["stop"]
    assert lab.group.each(lambda name: name, []) == {}


def test_losses_failures_and_faults_of_members_are_passed_on(lab: FakeLab) -> None:
    """Of strangers nothing is; who was never there cannot be lost."""
    log = Log()
    lab.group.listener = log
    failure = Failure(1, "d1", "make t1", 0, "out of luck")
    lab.workers["d1"].fail(failure)
    lab.workers["d0"].fail(failure)  # what it says of another counts for nothing
    assert log.failures == [failure]
    stranger = lab.fabric.endpoint("stranger")
    stranger.announce(b"")
    stranger.notify("leader", b"\xff garbage")
    assert log.faults == []
    lab.workers["d0"].endpoint.notify("leader", b"\xff garbage")
    assert [fault.device for fault in log.faults] == ["d0"]
    stranger.close()
    lab.fabric.tell_watchers("d9", False)
    assert log.lost == []
    lab.fabric.kill("d0")
    assert log.lost == [("d0", "it left the network")]


def test_who_comes_or_comes_back_is_told(lab: FakeLab) -> None:
    """Once each time, member or not; who was there all the time is no news."""
    lab.group.listener = log = Log()
    lab.fabric.tell_watchers("d1", True)
    assert log.found == []
    FakeWorker(lab.fabric, "d2")
    lab.fabric.kill("d1")
    FakeWorker(lab.fabric, "d1")
    assert log.found == ["d2", "d1"]
    assert [name for name, _ in log.lost] == ["d1"]


def test_what_could_not_be_retired_is_when_the_worker_is_back(lab: FakeLab) -> None:
    """One that was lost, and one that did not answer, still hold their epochs until then."""
    lab.group.remove("d1")
    lab.workers["d0"].answers["retire"] = lambda body: gone("d0")
    for name in ("d0", "d1"):
        lab.group.retire(7, name)
    del lab.workers["d0"].answers["retire"]
    for name in ("d0", "d1"):
        assert lab.group.take_back(name) == info_of(name)
        assert lab.workers[name].bodies["retire"][-1] == encode_message(OfEpoch(7))
    assert lab.group.names == ("d0", "d1")
    lab.group.take_back("d1")
    assert lab.workers["d1"].seen.count("retire") == 1


def test_who_is_interrupted_waits_for_no_answer() -> None:
    """Ctrl-C ends a call of all workers at once, whoever has not answered."""
    lab, asked, answered = FakeLab("d0", "d1"), threading.Event(), threading.Event()
    ended: list[str] = []

    def call(name: str) -> None:
        if name == "d0":
            assert asked.wait(PATIENCE_S)
            raise KeyboardInterrupt
        asked.set()
        answered.wait(PATIENCE_S)
        ended.append(name)

    with pytest.raises(KeyboardInterrupt):
        lab.group.each(call)
    assert ended == []
    answered.set()
