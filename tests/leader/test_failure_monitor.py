"""What a session does about losses, failures and silence, checked by hand on a turned clock."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.leader.fakes import FakeWorker, gone, stats_of
from tests.leader.monitored import ALONE, REST, TINY, Bench, error_of, run_monitor
from tests.worker.tiny import Tiny

from partita.errors import PlanError, RunError
from partita.fabric import Failure
from partita.leader import failure_monitor
from partita.leader.failure_monitor import FailureMonitor
from partita.leader.losses import Lost
from partita.leader.patience import Patience
from partita.worker.messages import Waiting


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


def test_a_service_for_months_knows_the_plans_of_its_last_epochs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change has an epoch of its own; those whose answers are long gone are forgotten."""
    monkeypatch.setattr(failure_monitor, "_MOST_PLANS", 3)
    monitor = bench.start()
    epochs = [bench.deployment(number) for number in range(2, 12)]
    for old, new in itertools.pairwise([bench.first, *epochs]):
        assert monitor.switch(old, new)
    assert list(monitor.plans) == [9, 10, 11]


def test_what_stands_by_takes_over_without_being_loaded(bench: Bench) -> None:
    """The unanswered request is fed under its epoch at once; each answer tells its plan."""
    standby = bench.deployment(7, ALONE)
    monitor = bench.start(lambda lost: ALONE, standby=standby)
    future = bench.ask()
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert monitor.deployment is standby
    assert "prepare" not in bench.lab.workers["d0"].seen
    fed = [(header.epoch, header.request) for header, _ in bench.lab.workers["d0"].pieces]
    assert fed == [(1, 0), (7, 0)]
    bench.lab.workers["d0"].answer_request(ALONE.program, 0, np.ones(4, np.float32), 7)
    assert future.result(0)["t2"].tolist() == [1] * 4
    assert monitor.plans == {1: TINY.program.plan_hash, 7: ALONE.program.plan_hash}
    monitor.close(Patience(5.0))
    assert (bench.first.retired, standby.retired) == (1, 1)


def _spare(bench: Bench, monitor: FailureMonitor) -> Any:
    """What stands by for the loss of d2, its content alone on the workers."""
    spare = bench.deployment(7, REST)
    spare.is_prepared = False
    assert monitor.hold(spare, bench.first, None)
    return spare


def test_what_stands_by_is_loaded_beside_what_was_struck(bench: Bench) -> None:
    """The struck epoch is taken down only when requests are fed again; nothing is planned for."""
    monitor = bench.start(lambda lost: REST)
    spare = _spare(bench, monitor)
    retired: list[int] = []
    spare.prepare = lambda infos: retired.append(bench.first.retired)
    future = bench.ask()
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert (retired, bench.first.retired) == ([0], 1)
    assert monitor.deployment is spare
    assert "have" not in bench.lab.workers["d0"].seen
    assert list(monitor.standbys) == []
    bench.lab.workers["d0"].answer_request(REST.program, 0, np.ones(4, np.float32), 7)
    assert future.result(0)["t2"].tolist() == [1] * 4
    assert bench.recovery.changes[0].again == 1
    assert set(monitor.infos) == {"d0", "d1"}


def test_without_room_for_both_the_struck_epoch_goes_first(bench: Bench) -> None:
    """A worker that refuses what stands by for its memory is asked again once that is free."""
    monitor = bench.start(lambda lost: REST)
    spare = _spare(bench, monitor)
    spare.refusal = RunError("Worker 'd0' refuses the plan: weights need too much.", device="d0")
    bench.ask()
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert monitor.deployment is spare
    assert spare.is_prepared
    assert bench.first.retired == 1


def test_what_stands_by_on_a_lost_device_is_of_no_use(bench: Bench) -> None:
    """It is for the loss of another one; what is left is deployed as ever."""
    monitor = bench.start(lambda lost: REST)
    spare = _spare(bench, monitor)
    spare.devices = ("d0", "d2")
    bench.ask()
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert monitor.deployment is not spare
    assert monitor.deployment.devices == ("d0", "d1")


def test_for_an_epoch_that_is_over_nothing_stands_by(bench: Bench) -> None:
    """It is refused, and what is held for it is let go; a fallback that is loaded stays."""
    fallback = bench.deployment(9, ALONE)
    monitor = bench.start(lambda lost: REST, standby=fallback)
    spare = _spare(bench, monitor)
    second = bench.deployment(2, REST)
    assert monitor.switch(bench.first, second)
    assert not monitor.hold(bench.deployment(8, REST), bench.first, None)
    monitor.standbys.drop()
    assert list(monitor.standbys) == [fallback]
    assert (spare.retired, fallback.retired) == (1, 0)


def test_who_is_back_is_taken_in_once_it_is_greeted(bench: Bench) -> None:
    """It waits until somebody asks; then its loss would be noticed again."""
    monitor = bench.start(lambda lost: REST)
    bench.ask()
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    bench.lab.workers["d2"] = FakeWorker(bench.lab.fabric, "d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert list(monitor.arrived) == ["d2"]
    assert monitor.lost == Lost(("d2",))
    monitor.take_back("d2")
    assert monitor.lost == Lost()
    assert "d2" in bench.lab.group.names
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert monitor.lost == Lost(("d2",))


def test_what_stands_by_is_taken_down_with_the_rest(bench: Bench) -> None:
    """Where nothing was lost, and where another program takes over."""
    standby = bench.deployment(7, ALONE)
    monitor = bench.start(lambda lost: REST, standby=standby)
    bench.ask()
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert monitor.deployment.devices == ("d0", "d1")
    monitor.close(Patience(5.0))
    assert standby.retired == 1


def test_a_device_whose_endpoint_is_lost_is_done_without(bench: Bench) -> None:
    """Its worker is there and beats, but computes nothing."""
    lost: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        return REST

    monitor = bench.start(replan)
    future = bench.ask()
    url = "http://192.0.2.7:8000/v2/models/cloud"
    monitor.on_failure(Failure(1, "d2", "conv", 0, f"Endpoint '{url}' does not answer", url))
    bench.pass_time(0.5)
    assert lost == [Lost(("d2",))]
    assert not future.done()


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


def test_a_drain_that_comes_after_another_epoch_lets_that_one_go_on(bench: Bench) -> None:
    """What took over meanwhile is fed: nobody else would end the pause."""
    monitor = bench.start()
    second = bench.deployment(2, REST)
    assert monitor.switch(bench.first, second)
    assert not monitor.drain(bench.first, 2.0)
    bench.ask()
    assert [header.epoch for header, _ in bench.lab.workers["d0"].pieces] == [2]


def test_an_error_of_the_monitor_itself_ends_the_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in its own code is told: without its thread a run could hang for ever."""
    monitor = bench.start()
    future = bench.ask()
    monkeypatch.setattr(monitor, "_handle_losses", lambda: 1 // 0)
    turns = iter([False, True])
    monkeypatch.setattr(monitor._ended, "is_set", lambda: next(turns))
    monitor._news.set()
    run_monitor(monitor)
    assert "The leader failed: ZeroDivisionError" in error_of(future).message


def test_closing_retires_every_epoch_that_is_left(bench: Bench) -> None:
    """The running one and those that still had answers to give; workers may be gone by then."""
    monitor = bench.start()
    bench.ask()
    second = bench.deployment(2, REST)
    monitor.switch(bench.first, second)
    bench.lab.workers["d1"].answers["stats"] = lambda body: gone("d1")
    monitor.close(Patience(5.0))
    assert (bench.first.retired, second.retired) == (1, 1)
    assert bench.lab.group.listener is None
