"""What a run's last words name: device, step and request."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from tests.leader.fakes import Deployed, FakeLab, gone, stats_of
from tests.worker.tiny import tiny_chain

from partita.fabric import Failure
from partita.leader.explain import explain_failure, explain_lost, explain_slow
from partita.leader.losses import REVOKED
from partita.leader.requests import Request
from partita.program import Receive
from partita.worker.messages import Waiting

PROGRAM = tiny_chain(5, 3).program
REQUEST = Request(5, (), Future(), number=2)


@pytest.fixture
def lab() -> FakeLab:
    """Three workers of a chain of five stages: d0 makes t0 and t3, d1 needs both."""
    return FakeLab("d0", "d1", "d2")


def deployment(lab: FakeLab) -> Any:
    """The chain, deployed."""
    return Deployed(lab, PROGRAM)


def waits_to_receive(device: str, stream: int, number: int = 2) -> Waiting:
    """What a device says that waits for a stream."""
    (step,) = (
        s.id for s in PROGRAM.device(device).steps if isinstance(s, Receive) and s.stream == stream
    )
    return Waiting(step, number, "receive", "waits for another to send")


def test_a_failure_is_told_with_its_request() -> None:
    """The request's number is the session's, not the epoch's; one full stop ends the message."""
    failure = Failure(1, "d1", "make t1", 2, "out of memory.")
    error = explain_failure(failure, REQUEST)
    assert error.message == "Device 'd1' failed in step 'make t1' of request 5: out of memory."
    assert (error.device, error.step, error.request) == ("d1", "make t1", 5)
    bare = explain_failure(failure, None)
    assert bare.message == "Device 'd1' failed in step 'make t1': out of memory."
    assert bare.request is None


def test_a_loss_names_the_step_whose_result_the_others_wait_for(lab: FakeLab) -> None:
    """Of d0's two steps the one counts whose piece d1 has not got."""
    lab.workers["d1"].stats = stats_of(waits_to_receive("d1", 3))
    error = explain_lost(lab.group, deployment(lab), REQUEST, ("d0", "it left the network"))
    assert "Device 'd0' is lost: it left the network, while step 'make t3' of" in error.message
    assert (error.device, error.step, error.request) == ("d0", "make t3", 5)


def test_nobody_is_asked_to_start_who_was_revoked(lab: FakeLab) -> None:
    """Its worker runs: a plan without it is what helps."""
    error = explain_lost(lab.group, deployment(lab), REQUEST, ("d0", REVOKED))
    assert "Device 'd0' is lost: it was revoked, while" in error.message
    assert error.message.endswith("had no result. Plan without it.")


def test_a_loss_without_witnesses_names_the_devices_first_step(lab: FakeLab) -> None:
    """Those that do not answer, or wait for something else, tell nothing."""
    lab.workers["d0"].answers["stats"] = lambda body: gone("d0")
    lab.workers["d1"].stats = stats_of(waits_to_receive("d1", 3, number=1))
    error = explain_lost(lab.group, deployment(lab), REQUEST, ("d0", "it was silent for 2.0 s"))
    assert error.step == "make t0"


def test_a_loss_while_nothing_runs_names_no_step(lab: FakeLab) -> None:
    """Nobody is asked; the next run would fail the same way."""
    error = explain_lost(lab.group, deployment(lab), None, ("d2", "it left the network"))
    assert "No request was under way" in error.message
    assert (error.step, error.request) == ("", None)
    assert all("stats" not in worker.seen for worker in lab.workers.values())


def test_a_stall_names_the_step_that_runs_rather_than_those_that_wait(lab: FakeLab) -> None:
    """Others wait because of it: the step that is running is the slow one."""
    lab.workers["d0"].stats = stats_of(Waiting(3, 2, "deliver", "waits for 't4'"))
    lab.workers["d1"].stats = stats_of(Waiting(4, 2, "make t1", "is running"))
    error = explain_slow(lab.group, deployment(lab), REQUEST, 30.0)
    assert "Request 5 made no progress for 30.0 s on device 'd1' in step 'make t1'" in error.message
    assert "which is running" in error.message
    assert (error.device, error.step) == ("d1", "make t1")


def test_a_stall_in_which_all_wait_names_the_first(lab: FakeLab) -> None:
    """A lost frame leaves nobody running; who waits longest in the program's order is named."""
    lab.workers["d2"].stats = stats_of(Waiting(9, 2, "receive t1 from d1", "waits for 'd1'"))
    error = explain_slow(lab.group, deployment(lab), REQUEST, 30.0)
    assert (error.device, error.step) == ("d2", "receive t1 from d1")


def test_a_stall_that_nobody_can_explain_is_still_told(lab: FakeLab) -> None:
    """No device knows of the request: the deadline and the request are all there is to say."""
    error = explain_slow(lab.group, deployment(lab), REQUEST, 1.25)
    assert error.message.startswith("Request 5 made no progress for 1.2 s. Raise the deadline")
    assert (error.device, error.step, error.request) == ("", "", 5)
