"""What a session goes on without: devices, one after the other or at once, and links."""

from __future__ import annotations

import numpy as np
import pytest
from tests.leader.fakes import gone, stats_of
from tests.leader.monitored import ALONE, REST, TINY, Bench, error_of
from tests.worker.tiny import Tiny

from partita.errors import LinkError, RunError
from partita.execution.request import RUNNING_REASON
from partita.fabric import Failure
from partita.leader.losses import Lost
from partita.program import Compute, Send
from partita.worker.messages import Stats, Waiting


def test_two_losses_at_once_are_one_recovery(bench: Bench) -> None:
    """The plan is made once, without both."""
    lost: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        return ALONE

    monitor = bench.start(replan)
    future = bench.ask()
    bench.lab.fabric.kill("d1")
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0",))
    assert lost == [Lost(("d1", "d2"))]
    assert monitor.deployment.devices == ("d0",)
    assert not future.done()


@pytest.mark.parametrize("method", ["hello", "prepare", "activate"])
def test_a_loss_during_a_recovery_is_done_without_too(bench: Bench, method: str) -> None:
    """Whatever the new plan was at when the second device went, a third plan is made."""
    lost: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        return REST if len(lost) == 1 else ALONE

    def die(body: bytes) -> Exception:
        bench.lab.fabric.kill("d1")
        return gone("d1")

    monitor = bench.start(replan)
    future = bench.ask()
    bench.lab.workers["d1"].answers[method] = die
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert lost == [Lost(("d2",)), Lost(("d2", "d1"))]
    assert bench.recovery.lost == lost[-1]
    assert monitor.deployment.devices == ("d0",)
    answer = np.ones(4, np.float32)
    bench.lab.workers["d0"].answer_request(ALONE.program, 0, answer, monitor.deployment.epoch)
    assert future.result(0)["t2"].tolist() == [1] * 4
    (change,) = bench.recovery.changes
    assert change.detail == "without device 'd2' and device 'd1'"


def test_the_requester_lost_during_a_recovery_ends_the_run(bench: Bench) -> None:
    """Both losses are told."""

    def die(body: bytes) -> Exception:
        bench.lab.fabric.kill("d0")
        return gone("d0")

    bench.start(lambda lost: REST)
    future = bench.ask()
    bench.lab.workers["d0"].answers["prepare"] = die
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    error = error_of(future)
    assert error.device == "d2"
    assert "requester 'd0' was lost, too" in error.message


@pytest.mark.parametrize("late", [2, 3])
def test_a_requester_that_beats_and_answers_too_late_is_not_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """The host is short of processors: what takes over is deployed again, and not for ever."""
    call, turns = bench.lab.leader.call, iter([True] * late)

    def answer(target: str, method: str, body: bytes, timeout_s: float) -> bytes:
        if (target, method) == ("d0", "prepare") and next(turns, False):
            bench.clock.time_s += timeout_s
            bench.lab.workers["d0"].beat(1, 0)
            raise gone("d0")
        return call(target, method, body, timeout_s)

    bench.start(lambda lost: REST)
    future = bench.ask()
    monkeypatch.setattr(bench.lab.leader, "call", answer)
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    if late > 2:
        assert "requester 'd0' was lost, too" in error_of(future).message
        return
    (change,) = bench.recovery.changes
    assert change.detail == "without device 'd2'"
    assert not future.done()


def test_a_worker_that_refuses_the_new_plan_ends_the_run(bench: Bench) -> None:
    """It is there, and planning again would ask the same of it."""
    bench.start(lambda lost: REST)
    future = bench.ask()
    bench.lab.workers["d1"].answers["prepare"] = lambda body: RunError("It is too much.")
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert "could not take over: Device 'd1': It is too much." in error_of(future).message


def test_a_broken_link_between_devices_that_are_there_is_planned_around(bench: Bench) -> None:
    """When both ends have beaten for some time after the news, the link is what is lost."""
    lost: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        return REST

    bench.start(replan, silence_s=1.75)
    future = bench.ask()
    for device, peer in (("d2", "d1"), ("d1", "d2")):
        bench.lab.workers[device].fail(Failure(1, device, "network", -1, "lost 1 pieces", peer))
    bench.pass_time(0.5)
    assert lost == []
    bench.pass_time(0.1)
    assert lost == [Lost(links=(("d1", "d2"),))]
    bench.pass_time(0.5)
    assert len(lost) == 1
    assert not future.done()
    assert "d2" in bench.lab.group.names
    (change,) = bench.recovery.changes
    assert change.detail == "without the link between 'd1' and 'd2'"


def test_of_a_broken_link_and_a_silent_device_the_device_is_lost(bench: Bench) -> None:
    """A cable was pulled: who sends to it hears of it sooner than the leader."""
    lost: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        return REST

    bench.start(replan, silence_s=1.75)
    bench.ask()
    bench.lab.workers["d1"].fail(Failure(1, "d1", "network", -1, "lost 1 pieces", "d2"))
    for _ in range(6):
        bench.pass_time(0.5, beating=("d0", "d1"))
    assert lost == [Lost(("d2",))]


def test_a_broken_link_without_a_way_on_is_told_with_device_and_step(bench: Bench) -> None:
    """Nobody plans anew: the run ends when no device turned out to be lost."""
    bench.start(silence_s=1.75)
    future = bench.ask()
    bench.lab.workers["d1"].fail(Failure(1, "d1", "send t1 to d2", 0, "no way", "d2"))
    for _ in range(5):
        bench.pass_time(0.5)
    error = error_of(future)
    assert (error.device, error.step, error.request) == ("d1", "send t1 to d2", 0)


@pytest.mark.parametrize(
    ("label", "lost"),
    [("send", Lost(links=(("d1", "d2"),))), ("make t1", Lost(("d1",)))],
    ids=["link", "device"],
)
def test_what_a_request_waits_for_beyond_its_deadline_is_planned_around(
    bench: Bench, label: str, lost: Lost
) -> None:
    """A send under way says that the link is slow, a computation that the device is."""
    asked: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        asked.append(all_lost)
        return REST if all_lost.links else ALONE

    bench.start(replan, deadline_s=10.0)
    future = bench.ask()
    kind = Send if label == "send" else Compute
    (step,) = (s for s in TINY.program.device("d1").steps if isinstance(s, kind))
    waiting = Waiting(step.id, 0, label, RUNNING_REASON)
    bench.lab.workers["d1"].stats = stats_of(waiting)
    for seconds in (0.1, 10.5):
        bench.pass_time(seconds)
    assert asked == [lost]
    assert not future.done()


def test_a_link_that_is_far_too_slow_is_given_up_before_the_deadline(bench: Bench) -> None:
    """Twice the same send is under way, while requests took a hundredth of the time."""
    asked: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        asked.append(all_lost)
        return REST

    bench.start(replan, deadline_s=30.0)
    serve_requests(bench, count=6, each_s=0.02)
    future = bench.ask()
    bench.lab.workers["d1"].stats = send_under_way(6)
    bench.pass_time(1.4)
    assert bench.lab.workers["d1"].seen.count("stats") == 0
    bench.pass_time(0.2)
    assert asked == []
    bench.pass_time(0.5)
    assert asked == [Lost(links=(("d1", "d2"),))]
    assert not future.done()
    (change,) = bench.recovery.changes
    assert "made no progress for 2.1 s on device 'd1' in step 'send'" in change.why


@pytest.mark.parametrize("case", ["progress", "slow requests", "few requests", "another send"])
def test_a_link_in_use_is_no_suspect(bench: Bench, case: str) -> None:
    """Steps that finish, requests that take as long, too few to know, and sends that end."""
    asked: list[Lost] = []
    bench.start(lambda lost: asked.append(lost) or REST, deadline_s=30.0)  # type: ignore[func-returns-value]
    count, each_s = {"slow requests": (6, 1.0), "few requests": (4, 0.02)}.get(case, (6, 0.02))
    serve_requests(bench, count, each_s)
    bench.ask()
    for turn in range(8):
        bench.lab.workers["d1"].stats = send_under_way(count)
        if case == "another send" and turn % 2:
            bench.lab.workers["d1"].stats = stats_of()
        if case == "progress":
            bench.finished["d0"] = bench.finished.get("d0", 0) + (turn % 3 == 2)
        bench.pass_time(0.6)
    assert asked == []


def serve_requests(bench: Bench, count: int, each_s: float) -> None:
    """Let some requests be answered."""
    for number in range(count):
        bench.ask()
        bench.clock.time_s += each_s
        bench.lab.workers["d0"].answer_request(TINY.program, number, np.ones(4, np.float32), 1)
    bench.finished = dict.fromkeys(("d0", "d1", "d2"), count)
    bench.pass_time(0.0)


def send_under_way(request: int) -> Stats:
    """What d1 says while it sends."""
    (step,) = (s for s in TINY.program.device("d1").steps if isinstance(s, Send))
    return stats_of(Waiting(step.id, request, "send", RUNNING_REASON))


def test_what_is_planned_for_waits_for_no_log(bench: Bench) -> None:
    """The log of minutes takes a while, the more where a worker hangs: requests go on before it."""
    bench.start(lambda lost: REST)
    bench.ask()
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    seen = bench.lab.workers["d1"].seen
    assert "stats" not in seen[seen.index("hello") : seen.index("activate")]
    assert "stats" in seen[seen.index("activate") :]
    assert bench.first.retired == 1


def test_without_room_for_both_what_is_planned_for_is_loaded_after(bench: Bench) -> None:
    """A worker that refuses it for its memory is asked again once the struck epoch is gone."""
    monitor = bench.start(lambda lost: REST)
    retired: list[int] = []

    def refuse_once(body: bytes) -> RunError | None:
        retired.append(bench.first.retired)
        return None if bench.first.retired else RunError("weights need too much")

    bench.lab.workers["d1"].answers["prepare"] = refuse_once
    bench.ask()
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert retired == [0, 1]
    assert monitor.deployment.devices == ("d0", "d1")


def test_a_recovery_waits_for_nobody_else(bench: Bench) -> None:
    """Who is looked for meanwhile, for another plan, may hang: what is left goes on without it."""
    monitor = bench.start(lambda lost: REST)
    bench.ask()
    bench.lab.workers["d3"].endpoint.close()
    bench.lab.group.add(("d3",))
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert monitor.deployment.devices == ("d0", "d1")
    assert bench.recovery.lost == Lost(("d2",))
    assert set(monitor.infos) == {"d0", "d1"}


def test_a_plan_that_was_made_before_a_loss_brings_nobody_back(bench: Bench) -> None:
    """Its workers are not looked for: a recovery, or the next plan, would wait for the lost one."""
    monitor = bench.start(lambda lost: REST)
    bench.ask()
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    with pytest.raises(LinkError, match="'d2' was lost meanwhile"):
        monitor.add_workers(TINY.program, 1.0)
    assert bench.lab.group.names == ("d0", "d1")
