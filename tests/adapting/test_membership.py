"""Devices that go, come back and are let go while a session runs, over workers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapting.runs import DEVICES, PATIENCE_S, Run, open_run

from partita.cluster import Cluster
from partita.errors import RunError
from partita.fabric import Caller, Failure
from partita.leader import Lost, back_off, replan_controller, standby_keeper
from partita.leader.calls import DRAIN, DRAIN_S, ask_leaders
from partita.worker.messages import Drain, encode_message


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the leader look often."""
    monkeypatch.setattr(replan_controller, "SAMPLE_S", 0.01)
    monkeypatch.setattr(standby_keeper, "_LOOK_S", 0.01)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Three devices with a third of the rows each."""
    with open_run(Cluster.of(DEVICES), tmp_path) as opened:
        yield opened


def test_a_loss_is_planned_around_by_what_stands_by_and_forgotten_when_it_is_over(run: Run) -> None:
    """Nothing is sought then, nor pushed; a device that is back is used as it was before."""
    run.until(lambda: set(run.session.covered) == {"d1", "d2"})
    first, sought = run.session.deployment, len(run.searches)
    run.lab.fabric.kill("d2")
    run.until(lambda: "recovered" in run.outcomes())
    assert run.used == {"d0", "d1"}
    assert run.session.lost == Lost(("d2",))
    (change,) = run.session.changes
    assert change.outage_s is not None
    assert 0 < change.outage_s < PATIENCE_S
    assert len(run.searches) == sought
    # What was prepared in haste is brought again, and what stands by is for what runs now.
    run.until(lambda: run.session.covered == ("d1",))
    again = run.session.deployment
    assert not again.options.quick
    assert again.pushed_bytes == 0
    run.lab.start(DEVICES[2])
    run.until(lambda: run.used == {"d0", "d1", "d2"})
    assert run.session.lost == Lost()
    assert run.session.deployment.program == first.program
    run.until(lambda: run.outcomes() == ["recovered", "switched"])
    assert run.session.changes[-1].why == "device d2 is there"
    run.until(lambda: set(run.session.covered) == {"d1", "d2"})


def test_requests_wait_for_the_requester_alone(run: Run) -> None:
    """Two are lost at once: with the requester back the rest runs, then all as before."""
    run.until(lambda: set(run.session.covered) == {"d1", "d2"})
    first = run.session.program
    run.lab.fabric.kill("d0")
    run.lab.fabric.kill("d2")
    run.lab.start(DEVICES[0])
    run.until(lambda: "recovered" in run.outcomes())
    assert run.used == {"d0", "d1"}
    run.lab.start(DEVICES[2])
    run.until(lambda: run.used == {"d0", "d1", "d2"})
    assert run.session.program == first
    assert run.session.lost == Lost()


def test_a_requester_that_is_back_runs_the_same_plan_again(run: Run) -> None:
    """It was made for what is there: no other one is taken, and nothing is pushed."""
    run.until(lambda: set(run.session.covered) == {"d1", "d2"})
    first = run.session.deployment
    run.lab.fabric.kill("d0")
    run.lab.start(DEVICES[0])
    run.until(lambda: "recovered" in run.outcomes())
    assert run.session.program == first.program
    assert run.session.deployment.pushed_bytes == 0
    assert all("d0" in model.cluster.names for model in run.searches)
    assert run.session.changes[0].detail == "with all devices"


def test_a_drained_device_is_free_and_comes_back_when_it_is_started_again(run: Run) -> None:
    """No request is lost meanwhile, and nothing of the session is left there."""
    worker = run.lab.workers["d1"]
    run.until(lambda: bool(run.session.covered))
    shell = run.lab.fabric.endpoint("shell")
    (answer,) = ask_leaders(shell, "d1", DRAIN, Drain("d1"), wait_s=DRAIN_S)
    assert (answer.leader, answer.error) == ("leader", "")
    assert run.used == {"d0", "d2"}
    assert worker._epochs == {}
    run.until(lambda: run.session.covered == ("d2",))
    assert worker._parts.store._pins == {}
    (change,) = run.session.changes
    assert (change.outcome, change.detail) == ("drained", "without device 'd1'")
    run.lab.fabric.kill("d1")
    run.lab.start(DEVICES[1])
    run.until(lambda: "d1" in run.used)
    assert run.session.lost == Lost()


def test_what_cannot_be_drained_is_named(run: Run) -> None:
    """The requester, and what is no device; all goes on as before."""
    for name in ("d0", "d9"):
        with pytest.raises(RunError, match=f"'{name}' cannot be drained: allowed are 'd1', 'd2'"):
            run.session.drain(name)
    run.until(lambda: True)
    assert run.used == {"d0", "d1", "d2"}
    shell = run.lab.fabric.endpoint("shell")
    (answer,) = ask_leaders(shell, "d1", DRAIN, Drain("d0"), wait_s=DRAIN_S)
    assert "'d0' cannot be drained" in answer.error


def test_a_worker_passes_on_its_own_drain_only(run: Run) -> None:
    """Of what a worker says of another device nothing is heeded; its own way is the usual one."""
    run.until(lambda: bool(run.session.covered))
    body = encode_message(Drain("d2"))
    with pytest.raises(RunError, match="takes 'drain' from leaders only, 'd1' is a worker"):
        run.session._answer_drain(Caller("d1", "worker"), body)
    assert run.used == {"d0", "d1", "d2"}
    assert run.session._answer_drain(Caller("d2", "worker"), body) == b""
    assert run.used == {"d0", "d1"}


def test_a_device_that_leaves_before_it_is_used_again_changes_nothing(run: Run) -> None:
    """Its coming was told, but it is gone when it is to be prepared; then it comes to stay."""
    run.lab.fabric.kill("d2")
    run.until(lambda: "recovered" in run.outcomes())
    run.lab.start(DEVICES[2])
    run.lab.fabric.kill("d2")
    run.until(lambda: True, least=20)
    assert run.used == {"d0", "d1"}
    run.lab.start(DEVICES[2])
    run.until(lambda: "d2" in run.used)


def test_a_link_is_done_without_by_what_stands_by_for_one_of_its_ends(run: Run) -> None:
    """Nothing is sought before the next answer; whether both ends are of use is, afterwards."""
    run.until(lambda: set(run.session.covered) == {"d1", "d2"})
    sought, ready = len(run.searches), [each.program for each in run.session._monitor.standbys]
    run.lab.fabric.cut_link("d1", "d2")
    broken = Failure(run.session.deployment.epoch, "d1", "send", -1, "lost 1 pieces", "d2")
    run.session._monitor.on_failure(broken)  # as the sender would say where links are real
    run.until(lambda: "recovered" in run.outcomes())
    assert run.session.lost == Lost.link("d1", "d2")
    assert run.used in ({"d0", "d1"}, {"d0", "d2"})
    assert run.session.program in ready
    run.until(lambda: len(run.session.changes) > 1)
    recovered, searched = run.session.changes[:2]
    assert recovered.detail == "without the link between 'd1' and 'd2'"
    assert "stood by" in searched.why
    run.until(lambda: len(run.searches) > sought)
    assert ("d1", "d2") not in run.searches[sought].links
    assert set(run.searches[sought].devices) == {"d0", "d1", "d2"}


def test_plans_do_not_flap_with_a_device(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is used again at once, but once it was soon lost again not before it stays."""
    monkeypatch.setattr(back_off, "_FIRST_S", 60.0)
    run.until(lambda: bool(run.session.covered))
    run.lab.fabric.kill("d2")
    run.until(lambda: "recovered" in run.outcomes())
    run.lab.start(DEVICES[2])
    run.until(lambda: "d2" in run.used)
    for _ in range(5):  # each time there for as long as some requests take
        run.lab.fabric.kill("d2")
        run.until(lambda: "d2" not in run.used)
        run.lab.start(DEVICES[2])
        run.until(lambda: True, least=5)
    assert run.outcomes().count("recovered") == 2
    assert run.session.lost == Lost(("d2",))
    monkeypatch.setattr(back_off, "_FIRST_S", 0.0)
    run.until(lambda: "d2" in run.used)  # it has stayed for long enough
    assert run.session.lost == Lost()
