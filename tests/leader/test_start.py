"""Workers that are lost while a plan is deployed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.leader.fakes import FakeLab, gone
from tests.leader.monitored import ALONE, REST, TINY
from tests.worker.tiny import Tiny

from partita.errors import LinkError, RunError
from partita.leader import DeployOptions, Lost, deploy, push
from partita.leader.recovery import Recovery
from partita.leader.worker_group import WorkerGroup
from partita.worker.messages import Progress

_METHODS = ["hello", "have", "put", "prepare", "progress", "calibrate", "activate"]
_STEPS = {
    "have": "send its part",
    "put": "send its part",
    "prepare": "load its part",
    "progress": "load its part",
    "calibrate": "time its part",
    "activate": "activate its part",
}


def die_when(lab: FakeLab, victim: str, method: str) -> None:
    """Let a worker go away when it is asked for something."""

    def die(body: bytes) -> Exception:
        lab.fabric.kill(victim)
        return gone(victim)

    lab.workers[victim].answers[method] = die


@pytest.mark.parametrize("method", _METHODS)
def test_a_loss_while_deploying_is_planned_around(method: str) -> None:
    """Whatever the first plan was at, a second one runs, and what was lost is told."""
    lab, lost = FakeLab("d0", "d1", "d2"), list[Lost]()

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        return REST

    die_when(lab, "d2", method)
    with deploy(TINY, lab.leader, replan=replan) as session:
        assert lost == [session.lost] == [Lost(("d2",))]
        assert session.deployment.devices == ("d0", "d1")
        assert set(session.infos) == {"d0", "d1"}
        (change,) = session.changes
        assert (change.outcome, change.detail) == ("recovered", "without device 'd2'")
        assert "'d2'" in change.why
        assert change.at_s < 0
        assert change.switched_s is not None


@pytest.mark.parametrize("is_timed", [False, True])
def test_an_endpoint_that_is_lost_while_deploying_is_planned_around(is_timed: bool) -> None:
    """When the device loads its part, and when it is timed; other faults of a part are not."""
    for peer, there in (("http://192.0.2.7:8000/v2/models/cloud", ("d0", "d1")), ("", ())):
        lab = FakeLab("d0", "d1", "d2")
        worker = lab.workers["d2"]

        def fail(body: bytes, worker: Any = worker, peer: str = peer) -> Progress:
            is_now = ("calibrate" in worker.seen) == is_timed
            return Progress(False, 0, 1, "no answer", peer) if is_now else Progress(False, 1, 1)

        worker.answers["progress"] = fail
        if there:
            with deploy(TINY, lab.leader, replan=lambda lost: REST) as session:
                assert session.lost == Lost(("d2",))
                assert session.deployment.devices == there
        else:
            with pytest.raises(RunError, match=r"'d2' cannot .* its part: no answer"):
                deploy(TINY, lab.leader, replan=lambda lost: REST)


def test_two_losses_while_deploying_are_planned_around() -> None:
    """The second one goes while the plan without the first is deployed."""
    lab, lost = FakeLab("d0", "d1", "d2"), list[Lost]()

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        die_when(lab, "d1", "prepare")
        return REST if len(lost) == 1 else ALONE

    die_when(lab, "d2", "prepare")
    with deploy(TINY, lab.leader, replan=replan) as session:
        assert lost == [Lost(("d2",)), Lost(("d2", "d1"))]
        assert session.deployment.devices == ("d0",)


@pytest.mark.parametrize(("method", "step"), _STEPS.items())
def test_without_a_way_on_device_and_step_are_named(method: str, step: str) -> None:
    """Nothing stays prepared on those that are there."""
    lab = FakeLab("d0", "d1", "d2")
    die_when(lab, "d1", method)
    told = f"'d1' is lost: it left the network, while the plan was deployed, in step '{step}'"
    with pytest.raises(LinkError, match=told) as caught:
        deploy(TINY, lab.leader)
    assert (caught.value.device, caught.value.step) == ("d1", step)
    assert lab.workers["d0"].seen[-1] == lab.workers["d2"].seen[-1] == "retire"


def test_a_worker_that_does_not_answer_is_no_other_case() -> None:
    """A cable may have been pulled: its name stays for a while."""
    lab = FakeLab("d0", "d1", "d2")
    lab.workers["d2"].answers["prepare"] = lambda body: RunError("It is too much.")
    with pytest.raises(RunError, match="Device 'd2': It is too much"):
        deploy(TINY, lab.leader, DeployOptions(silence_s=0.0), replan=lambda lost: REST)
    call = lab.leader.call

    def pulled(target: str, method: str, body: bytes, timeout_s: float) -> bytes:
        if (target, method) == ("d2", "prepare"):
            raise gone("d2")
        return call(target, method, body, timeout_s)

    lab.leader.call = pulled  # type: ignore[method-assign]
    with pytest.raises(LinkError, match=r"'d2' is lost: it does not answer.*'load its part'"):
        deploy(TINY, lab.leader)
    with deploy(TINY, lab.leader, replan=lambda lost: REST) as session:
        assert session.lost == Lost(("d2",))


def test_the_requester_lost_while_deploying_is_the_end() -> None:
    """There is nobody to plan for."""
    lab, lost = FakeLab("d0", "d1", "d2"), list[Lost]()
    die_when(lab, "d0", "prepare")
    with pytest.raises(LinkError, match="'d0' is lost"):
        deploy(TINY, lab.leader, replan=lambda one: lost.append(one) or REST)  # type: ignore[func-returns-value]
    assert lost == []


def test_a_rest_that_cannot_run_it_is_told_with_the_loss() -> None:
    """The message says both."""

    def refuse(lost: Lost) -> Tiny:
        raise RunError("It does not fit.")

    lab = FakeLab("d0", "d1", "d2")
    die_when(lab, "d2", "put")
    with pytest.raises(RunError, match=r"'d2' is lost.* could not take over: It does not fit"):
        deploy(TINY, lab.leader, replan=refuse)


def test_a_loss_while_what_stands_by_is_deployed_is_planned_around() -> None:
    """The first plan is retired everywhere, and nothing stands by any more."""
    lab = FakeLab("d0", "d1", "d2")
    seen = lab.workers["d1"].seen

    def die(body: bytes) -> Exception | None:
        if seen.count("prepare") < 2:
            return None
        lab.fabric.kill("d1")
        return gone("d1")

    lab.workers["d1"].answers["prepare"] = die
    with deploy(TINY, lab.leader, replan=lambda lost: ALONE, standby=REST) as session:
        assert session.lost == Lost(("d1",))
        assert session.deployment.devices == ("d0",)
        assert lab.workers["d2"].seen.count("retire") == 1


def test_nothing_more_is_sent_for_a_plan_that_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others still lack is large, and the next plan may need less of it."""
    monkeypatch.setattr(push, "CHUNK_BYTES", 8)
    lab = FakeLab("d0", "d1", "d2")

    def strike(body: bytes) -> None:
        lab.fabric.tell_watchers("d2", False)

    lab.workers["d0"].answers["put"] = strike
    with pytest.raises(LinkError, match="'d2' is lost"):
        deploy(TINY, lab.leader)
    assert lab.workers["d0"].seen.count("put") == 1


def test_who_is_gone_from_the_begin_on_is_asked_nothing() -> None:
    """A plan with it is planned around, one without it runs; of either it is lost."""
    gone_of = {"d2": "it was revoked"}
    lab = FakeLab("d0", "d1", "d2")
    with deploy(TINY, lab.leader, replan=lambda lost: REST, gone=gone_of) as session:
        assert session.lost == Lost(("d2",))
        assert session.deployment.devices == ("d0", "d1")
        (change,) = session.changes
        assert (change.why, change.outcome) == ("Device 'd2' is lost: it was revoked", "recovered")
    with deploy(REST, lab.leader, gone=gone_of) as session:
        assert (session.lost, session.changes) == (Lost(("d2",)), [])
    assert lab.workers["d2"].seen == []


@pytest.mark.parametrize(("device", "is_able"), [("d2", False), ("d0", True)])
def test_who_is_gone_and_not_done_without_is_named(device: str, is_able: bool) -> None:
    """A plan that stays as it is, and one whose inputs come in there: nobody is asked."""
    lab = FakeLab("d0", "d1", "d2")
    with pytest.raises(LinkError, match=f"Device '{device}' is lost: it was revoked"):
        deploy(
            TINY,
            lab.leader,
            replan=(lambda lost: REST) if is_able else None,
            gone={device: "it was revoked"},
        )
    assert lab.workers["d1"].seen == []


def test_what_is_told_of_a_loss_is_its_first_sentence() -> None:
    """What to do about it is for a run that ends."""
    recovery = Recovery(WorkerGroup(FakeLab("d0").leader, ()), lambda lost: REST, "d0", 0.0)
    recovery.go_on(0.0, RunError("'d1' is not there after 1.5 s: found none. Restart."), id)
    assert recovery.changes[0].why == "'d1' is not there after 1.5 s: found none"
