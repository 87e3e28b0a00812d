"""What a session does about losses, failures and silence, checked by hand on a turned clock."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from tests.engine.test_slowed import VirtualClock
from tests.leader.fakes import Deployed, FakeLab, fake_time, gone, info_of, stats_of
from tests.worker.tiny import Tiny, tiny_chain

from partita.errors import PlanError, RunError
from partita.execution.request import RUNNING_REASON
from partita.fabric import Failure
from partita.leader import DeployOptions, failure_monitor, request_tracker, worker_group
from partita.leader.failure_monitor import FailureMonitor, ReplanWithout
from partita.leader.losses import Lost
from partita.program import Compute, Send
from partita.worker.messages import Waiting

TINY = tiny_chain(3, 3, in_flight=2, credit=2)
REST = tiny_chain(3, 2, in_flight=2, credit=2)
ALONE = tiny_chain(3, 1, in_flight=2, credit=2)


class Bench:
    """A monitor whose thread sleeps: the test checks."""

    def __init__(self, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(failure_monitor, "_CHECK_S", 3600.0)
        for module in (failure_monitor, worker_group, request_tracker):
            monkeypatch.setattr(module, "time", fake_time(clock))
        self.clock = clock
        self.lab = FakeLab("d0", "d1", "d2", "d3")
        self.lab.group.remove("d3")
        self.first = self.deployment(1)
        self.monitors: list[FailureMonitor] = []
        self.finished: dict[str, int] = {}

    def deployment(self, epoch: int, tiny: Tiny = TINY) -> Any:
        """A deployment under an epoch."""
        return Deployed(self.lab, tiny.program, epoch)

    def start(self, replan: ReplanWithout | None = None, **options: object) -> FailureMonitor:
        """Begin to look after the first epoch."""
        infos = {name: info_of(name) for name in self.lab.workers}
        given = DeployOptions(**options)  # type: ignore[arg-type]
        self.monitors.append(FailureMonitor(self.lab.group, self.first, infos, given, replan))
        return self.monitors[0]

    def ask(self) -> Future[Any]:
        """Feed one request."""
        return self.monitors[0].tracker.ask((np.zeros(4, np.float32),))

    def pass_time(self, seconds: float, *, beating: tuple[str, ...] = ("d0", "d1", "d2")) -> None:
        """Let time pass, have workers beat, and check."""
        self.clock.time_s += seconds
        for name in beating:
            self.lab.workers[name].beat(1, self.finished.get(name, 0))
        self.monitors[0]._check(self.clock.time_s)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench that ends with the test."""
    made = Bench(VirtualClock(), monkeypatch)
    yield made
    for monitor in made.monitors:
        monitor.tracker.fail(RunError("over"))
        monitor.close()


def error_of(future: Future[Any]) -> RunError:
    """How a request ended."""
    error = future.exception(0)
    assert isinstance(error, RunError)
    return error


def test_a_failure_ends_the_run_after_a_moment(bench: Bench) -> None:
    """It may come from a lost device of which the network has not told yet."""
    bench.start()
    future = bench.ask()
    bench.lab.workers["d1"].fail(Failure(1, "d1", "make t1", 0, "out of luck"))
    bench.pass_time(0.2)
    assert not future.done()
    bench.pass_time(0.2)
    assert "'d1' failed in step 'make t1' of request 0: out of luck" in error_of(future).message


def test_a_loss_within_that_moment_is_the_cause(bench: Bench) -> None:
    """Of a broken connection and the device behind it, the device is named."""
    bench.start()
    future = bench.ask()
    bench.lab.workers["d1"].fail(Failure(1, "d1", "send t1 to d2", 0, "broken pipe"))
    bench.pass_time(0.1)
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    bench.pass_time(0.3, beating=("d0", "d1"))
    assert error_of(future).device == "d2"
    assert "it left the network" in error_of(future).message


def test_a_failure_of_an_epoch_that_is_over_is_no_matter(bench: Bench) -> None:
    """What an old epoch's workers still say must not end the new one."""
    monitor = bench.start()
    future = bench.ask()
    bench.lab.workers["d1"].fail(Failure(99, "d1", "make t1", 0, "late"))
    bench.pass_time(1.0)
    assert not future.done()
    assert monitor.tracker.error is None


def test_a_fault_of_the_leaders_own_network_ends_the_run(bench: Bench) -> None:
    """A frame that was refused may have been an answer: it would be waited for in vain."""
    monitor = bench.start()
    future = bench.ask()
    monitor.on_fault(RunError("Frame rejected.", device="d0"))
    bench.pass_time(0.4)
    assert error_of(future).step == "network"


def test_a_silent_worker_is_lost(bench: Bench) -> None:
    """Its connection lives, but it does not beat: after the silence it counts as lost."""
    bench.start(silence_s=1.75)
    future = bench.ask()
    bench.pass_time(1.5, beating=("d0", "d1"))
    assert not future.done()
    bench.pass_time(0.5, beating=("d0", "d1"))
    assert error_of(future).device == "d2"
    assert "it was silent for 2.0 s" in error_of(future).message


def test_a_loss_between_requests_is_told_to_the_next(bench: Bench) -> None:
    """Nothing is under way; the run cannot go on all the same."""
    bench.start()
    bench.lab.fabric.kill("d1")
    bench.pass_time(0.1, beating=("d0", "d2"))
    with pytest.raises(RunError, match=r"'d1' is lost.*No request was under way"):
        bench.ask()


def test_the_loss_of_a_device_that_no_epoch_uses_ends_nothing(bench: Bench) -> None:
    """It is only taken out of the group."""
    bench.lab.group.add(["d3"])
    bench.start()
    future = bench.ask()
    bench.lab.fabric.kill("d3")
    bench.pass_time(0.1)
    assert not future.done()
    assert "d3" not in bench.lab.group.names


def test_a_request_without_progress_ends_at_its_deadline(bench: Bench) -> None:
    """Steps that finish put the deadline off; beats alone do not."""
    bench.start(deadline_s=10.0)
    future = bench.ask()
    bench.lab.workers["d2"].stats = stats_of(Waiting(1, 0, "make t2", "is running"))
    for count in (6, 7):
        bench.finished["d1"] = count
        bench.pass_time(9.0)
    assert not future.done()
    bench.pass_time(10.5)
    assert "made no progress for 10.5 s on device 'd2'" in error_of(future).message


def test_a_request_that_others_overtake_for_ever_ends_too(bench: Bench) -> None:
    """Progress of others does not keep a lost request alive for longer than many deadlines."""
    bench.start(deadline_s=1.0)
    future = bench.ask()
    for count in range(1, 40):
        if future.done():
            break
        bench.finished["d1"] = count
        bench.pass_time(0.75)
    assert 20 < count * 0.75 < 22
    assert error_of(future).request == 0


def test_the_rest_takes_over_with_the_unanswered_requests(bench: Bench) -> None:
    """The old epoch is retired, the new one is fed what had no answer, with the workers left."""
    lost: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        return REST

    monitor = bench.start(replan)
    future = bench.ask()
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert lost == [Lost(("d2",))]
    assert bench.first.retired == 1
    assert monitor.deployment.devices == ("d0", "d1")
    fed = [(header.epoch, header.request) for header, _ in bench.lab.workers["d0"].pieces]
    assert fed == [(1, 0), (monitor.deployment.epoch, 0)]
    answer = np.ones(4, np.float32)
    bench.lab.workers["d0"].answer_request(REST.program, 0, answer, monitor.deployment.epoch)
    assert future.result(0)["t2"].tolist() == [1] * 4
    assert [log.epoch for log in monitor.fetch_logs()] == [1, monitor.deployment.epoch]


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
    assert monitor.lost == lost[-1]
    assert monitor.deployment.devices == ("d0",)
    answer = np.ones(4, np.float32)
    bench.lab.workers["d0"].answer_request(ALONE.program, 0, answer, monitor.deployment.epoch)
    assert future.result(0)["t2"].tolist() == [1] * 4
    (change,) = monitor.changes
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


def test_a_worker_that_refuses_the_new_plan_ends_the_run(bench: Bench) -> None:
    """It is there, and planning again would ask the same of it."""
    bench.start(lambda lost: REST)
    future = bench.ask()
    bench.lab.workers["d1"].answers["prepare"] = lambda body: RunError("It is too much.")
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert "could not take over: Device 'd1': It is too much." in error_of(future).message


def test_a_broken_link_between_devices_that_are_there_is_planned_around(bench: Bench) -> None:
    """After as long as the silence of a lost device would take, the link is what is lost."""
    lost: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        return REST

    monitor = bench.start(replan, silence_s=1.75)
    future = bench.ask()
    for device, peer in (("d2", "d1"), ("d1", "d2")):
        bench.lab.workers[device].fail(Failure(1, device, "network", -1, "lost 1 pieces", peer))
    for _ in range(4):
        bench.pass_time(0.5)
    assert lost == []
    bench.pass_time(0.5)
    assert lost == [Lost(links=(("d1", "d2"),))]
    bench.pass_time(0.5)
    assert len(lost) == 1
    assert not future.done()
    assert "d2" in bench.lab.group.names
    (change,) = monitor.changes
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


def test_nobody_takes_over_for_the_requester(bench: Bench) -> None:
    """The inputs come in at that device: without it there is no run to go on with."""
    asked: list[str] = []
    bench.start(asked.append)  # type: ignore[arg-type]
    future = bench.ask()
    bench.lab.fabric.kill("d0")
    bench.pass_time(0.1, beating=("d1", "d2"))
    assert error_of(future).device == "d0"
    assert asked == []


def test_when_the_rest_cannot_take_over_both_reasons_are_told(bench: Bench) -> None:
    """The loss comes first, with its step and request; then why there was no way on."""

    def replan(lost: Lost) -> Tiny:
        raise PlanError("No plan fits.")

    bench.start(replan)
    future = bench.ask()
    bench.lab.fabric.kill("d1")
    bench.pass_time(0.1, beating=("d0", "d2"))
    error = error_of(future)
    assert "'d1' is lost" in error.message
    assert error.message.endswith("The rest could not take over: No plan fits.")
    assert (error.device, error.step, error.request) == ("d1", "make t1", 0)


def test_an_old_epoch_is_retired_after_its_last_answer(bench: Bench) -> None:
    """Requests fed before a switch end where they began; idle workers need not beat any more."""
    monitor = bench.start()
    bench.ask()
    second = bench.deployment(2, REST)
    assert monitor.switch(bench.first, second)
    bench.pass_time(0.1)
    assert bench.first.retired == 0
    bench.lab.workers["d0"].answer_request(TINY.program, 0, np.ones(4, np.float32), 1)
    bench.pass_time(0.1)
    assert (bench.first.retired, second.retired) == (1, 0)
    bench.pass_time(60.0, beating=("d0", "d1"))
    assert monitor.tracker.error is None
    assert "d2" in bench.lab.group.names


def test_a_switch_that_comes_too_late_is_refused(bench: Bench) -> None:
    """Another epoch runs, a device of the new one is lost, or the run is over."""
    monitor = bench.start()
    second, third = bench.deployment(2, REST), bench.deployment(3)
    assert monitor.switch(bench.first, second)
    assert not monitor.switch(bench.first, third)
    bench.lab.group.remove("d2")
    assert not monitor.switch(second, third)
    monitor.tracker.fail(RunError("over"))
    assert not monitor.switch(second, bench.deployment(4, REST))
    assert monitor.deployment is second


def test_draining_waits_for_answers_or_gives_up(bench: Bench) -> None:
    """In time, the epoch is retired and nothing is fed; else it runs on as before."""
    monitor = bench.start()
    first = bench.ask()
    began_s = bench.clock.time_s
    assert not monitor.drain(bench.first, 2.0)
    assert bench.clock.time_s - began_s == pytest.approx(2.0, abs=0.1)
    second = bench.ask()
    for number in range(2):
        bench.lab.workers["d0"].answer_request(TINY.program, number, np.ones(4, np.float32), 1)
    assert first.done()
    assert second.done()
    assert monitor.drain(bench.first, 2.0)
    assert bench.first.retired == 1
    assert [log.epoch for log in monitor.fetch_logs()] == [1]


def test_an_error_of_the_monitor_itself_ends_the_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in its own code is told: without its thread a run could hang for ever."""
    monitor = bench.start()
    future = bench.ask()
    monkeypatch.setattr(monitor, "_handle_losses", lambda: 1 // 0)
    turns = iter([False, True])
    monkeypatch.setattr(monitor._ended, "wait", lambda timeout_s: next(turns))
    monitor._run()
    assert "The leader failed: ZeroDivisionError" in error_of(future).message


def test_closing_retires_every_epoch_that_is_left(bench: Bench) -> None:
    """The running one and those that still had answers to give; workers may be gone by then."""
    monitor = bench.start()
    bench.ask()
    second = bench.deployment(2, REST)
    monitor.switch(bench.first, second)
    bench.lab.workers["d1"].answers["stats"] = lambda body: gone("d1")
    monitor.close()
    assert (bench.first.retired, second.retired) == (1, 1)
    assert bench.lab.group.listener is None
