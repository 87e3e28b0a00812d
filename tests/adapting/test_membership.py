"""Devices that go, come back and are let go while a session runs, over workers in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from tests.memory_lab import MemoryLab, memory_lab
from tests.planners.fakes import make_chain

from partita.adapting.replanner import Replanner, make_finder
from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.errors import RunError
from partita.execution.adapt import LOSSES_ONLY
from partita.fabric import Caller
from partita.graph import Graph
from partita.leader import DeployOptions, Lost, Session, deploy, replan_controller, standby_keeper
from partita.leader.calls import DRAIN, DRAIN_S, ask_leaders
from partita.planners import find_plan
from partita.worker.messages import Drain, encode_message

DEVICES = [Device(name, kind="raspberry-pi-4") for name in ("d0", "d1", "d2")]
#: Plans are believed as they are predicted: here all workers share one process.
BELIEVE = replace(LOSSES_ONLY, trial=0, least_gain=float("-inf"), pause_s=0.0)
_PATIENCE_S = 30.0


@dataclass
class Run:
    """A session over workers in memory, and requests that are checked one by one."""

    lab: MemoryLab
    session: Session
    graph: Graph
    searches: list[CostModel]

    def until(self, is_done: Callable[[], bool], least: int = 3) -> None:
        """Ask until something has happened; each answer is its own, in order."""
        given: list[dict[str, np.ndarray]] = []

        def feed() -> Iterator[dict[str, np.ndarray]]:
            deadline_s = time.monotonic() + _PATIENCE_S
            while len(given) < least or not is_done():
                assert time.monotonic() < deadline_s, self.session.changes
                given.append(draw_inputs(self.graph.input_specs, 1, len(given))[0])
                yield given[-1]

        answers = list(self.session.iterate(feed()))
        whole = ort.InferenceSession(self.graph.to_model().SerializeToString())
        assert len(answers) == len(given)
        for one, answer in zip(given, answers, strict=True):
            (got,) = answer.values()
            np.testing.assert_allclose(got, whole.run(None, one)[0], atol=1e-5)

    @property
    def used(self) -> set[str]:
        """The devices of the running plan."""
        return {part.device for part in self.session.program.devices}

    def outcomes(self) -> list[str]:
        """What came of each change so far."""
        return [change.outcome for change in self.session.changes]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """Three devices with a third of the rows each; the leader looks often."""
    monkeypatch.setattr(replan_controller, "SAMPLE_S", 0.01)
    monkeypatch.setattr(standby_keeper, "_LOOK_S", 0.01)
    graph, searches = make_chain(3, height=12), list[CostModel]()
    cost = CostModel(graph, Cluster.of(DEVICES))
    plan = find_plan(cost, planner="equal_rows").plan
    find = make_finder(plan, "equal_rows", 0.5)

    def search(model: CostModel) -> object:
        searches.append(model)
        return find(model)

    replanner = Replanner(cost, plan, search)  # type: ignore[arg-type]
    with ExitStack() as stack:
        lab = stack.enter_context(memory_lab(DEVICES, store=tmp_path))
        session = deploy(
            compile_plan(graph, plan, cost.cluster),
            lab.endpoint,
            DeployOptions(wait_s=0.5),
            replan=replanner.recover,
            adapting=(replanner, BELIEVE),
        )
        stack.enter_context(session)
        session.begin_traces()
        yield Run(lab, session, graph, searches)


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
    assert 0 < change.outage_s < _PATIENCE_S
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
