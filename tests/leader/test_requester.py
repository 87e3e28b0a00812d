"""What a session does without its requester, checked by hand on a turned clock."""

from __future__ import annotations

import numpy as np
import pytest
from tests.leader.fakes import FakeWorker, gone
from tests.leader.monitored import REST, TINY, Bench, error_of
from tests.worker.tiny import Tiny

from partita.fabric import Failure
from partita.leader.losses import REVOKED, Lost


def test_nobody_takes_over_for_the_requester(bench: Bench) -> None:
    """The inputs come in at that device: without it there is no run to go on with."""
    asked: list[str] = []
    bench.start(asked.append)  # type: ignore[arg-type]
    future = bench.ask()
    bench.lab.fabric.kill("d0")
    bench.pass_time(0.1, beating=("d1", "d2"))
    assert error_of(future).device == "d0"
    assert asked == []


def test_requests_wait_for_a_requester_that_comes_back(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """They are fed again once it is; nothing was planned for, or ended, until then."""
    lost: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        return TINY

    monitor = bench.start(replan, wait_s=5.0)
    future = bench.ask()
    bench.lab.fabric.kill("d0")
    bench.pass_time(4.0, beating=("d1", "d2"))
    assert (lost, bench.first.retired, future.done()) == ([], 1, False)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "device 'd0', where inputs come in, is lost: requests wait, 5 s at most"
    ]
    bench.lab.workers["d0"] = FakeWorker(bench.lab.fabric, "d0")
    bench.pass_time(0.1, beating=("d1", "d2"))
    assert list(monitor.arrived) == ["d0"]
    monitor.take_back("d0")
    bench.pass_time(0.1, beating=("d1", "d2"))
    assert lost == [Lost()]
    (change,) = bench.recovery.changes
    assert (change.outcome, change.detail, change.again) == ("recovered", "with all devices", 1)
    number = monitor.deployment.epoch
    bench.lab.workers["d0"].answer_request(TINY.program, 0, np.ones(4, np.float32), number)
    assert future.result(0)["t2"].tolist() == [1] * 4


def test_others_that_are_lost_meanwhile_are_done_without(bench: Bench) -> None:
    """The plan after the wait is made without them, once."""
    lost: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        return REST

    monitor = bench.start(replan, wait_s=5.0)
    bench.ask()
    bench.lab.fabric.kill("d0")
    bench.pass_time(0.1, beating=("d1", "d2"))
    bench.lab.workers["d1"].fail(Failure(1, "d1", "send t1 to d0", 0, "broken pipe"))
    bench.lab.fabric.kill("d2")
    bench.pass_time(1.0, beating=("d1",))
    bench.lab.workers["d0"] = FakeWorker(bench.lab.fabric, "d0")
    bench.pass_time(0.1, beating=("d1",))
    monitor.take_back("d0")
    bench.pass_time(0.1, beating=("d1",))
    assert lost == [Lost(("d2",))]
    assert monitor.deployment.devices == ("d0", "d1")
    assert len(bench.recovery.changes) == 1


@pytest.mark.parametrize("why", ["", REVOKED])
def test_a_requester_that_stays_away_ends_the_run(bench: Bench, why: str) -> None:
    """After the wait, or at once where it is not going to come back."""
    monitor = bench.start(lambda lost: REST, wait_s=5.0)
    future = bench.ask()
    if why:
        monitor.on_lost("d0", why)
    else:
        bench.lab.fabric.kill("d0")
        bench.pass_time(4.9, beating=("d1", "d2"))
        assert not future.done()
        bench.pass_time(4.9, beating=("d1", "d2"))
    bench.pass_time(0.2, beating=("d1", "d2"))
    assert error_of(future).device == "d0"


def test_the_requester_lost_during_a_recovery_is_waited_for(bench: Bench) -> None:
    """What takes over then is without the other device, and tells of its loss."""

    def die(body: bytes) -> Exception:
        bench.lab.fabric.kill("d0")
        return gone("d0")

    monitor = bench.start(lambda lost: REST, wait_s=5.0)
    future = bench.ask()
    bench.lab.workers["d0"].answers["prepare"] = die
    bench.lab.fabric.kill("d2")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert not future.done()
    bench.lab.workers["d0"] = FakeWorker(bench.lab.fabric, "d0")
    bench.pass_time(0.1, beating=("d0", "d1"))
    monitor.take_back("d0")
    bench.pass_time(0.1, beating=("d0", "d1"))
    assert monitor.deployment.devices == ("d0", "d1")
    (change,) = bench.recovery.changes
    assert "d2" in change.why
    assert change.detail == "without device 'd2'"
