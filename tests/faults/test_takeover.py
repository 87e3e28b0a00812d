"""Leaders that are killed and started again, and devices drained from another shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.takeover import measure
from tests.faults.conftest import NAMES
from tests.planners.fakes import make_chain

import partita as pt
from partita.cli import main
from partita.errors import RunError
from partita.lab import Lab
from partita.leader.worker_group import WorkerGroup
from partita.worker.messages import OfEpoch, Stats
from partita.zoo import build_model

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
#: Whoever is told nothing waits for ever: this is not how fast it is.
_PATIENCE_S = 30.0
_LEADER = """
import json, sys, time
import numpy as np
import partita as pt
from tests.planners.fakes import make_chain
graph, cluster = make_chain(3, height=12), pt.load_cluster(sys.argv[1])
cost = pt.CostModel(graph, cluster)
plan = pt.find_plan(cost, planner="equal_rows").plan
with pt.deploy(plan, graph, cluster, recover=True) as session:
    given = {spec.name: np.ones(spec.shape, np.float32) for spec in graph.input_specs}
    session.run([given])
    print(json.dumps([session.deployment.epoch, session.deployment.pushed_bytes]), flush=True)
    while True:
        session.run([given])
"""


def _lead(path: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A leader at work, its epoch, and the bytes that it pushed."""
    leader = subprocess.Popen(
        [sys.executable, "-c", _LEADER, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"},
    )
    assert leader.stdout is not None
    return leader, json.loads(leader.stdout.readline())


def _end(leader: subprocess.Popen[bytes]) -> None:
    leader.kill()
    leader.wait()
    assert leader.stdout is not None
    leader.stdout.close()


def test_a_leader_that_is_started_again_takes_the_workers_over(placed: tuple[Lab, Path]) -> None:
    """Without sending anything; what the killed one held is gone."""
    lab, path = placed
    group = WorkerGroup(lab.endpoint, NAMES)
    first, (old, pushed_bytes) = _lead(path)
    assert pushed_bytes > 0
    group.ask("d1", "stats", OfEpoch(old), Stats)
    first.send_signal(signal.SIGKILL)
    second, (new, pushed_bytes) = _lead(path)
    try:
        assert pushed_bytes == 0
        for name in NAMES:
            group.ask(name, "stats", OfEpoch(new), Stats)
            with pytest.raises(RunError, match="not prepared"):
                group.ask(name, "stats", OfEpoch(old), Stats)
    finally:
        _end(first)
        _end(second)


def test_a_device_is_drained_from_another_shell(
    placed: tuple[Lab, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The session goes on without it; what no session uses is free already."""
    _, path = placed
    graph, cluster = make_chain(3, height=12), pt.load_cluster(path)
    plan = pt.find_plan(pt.CostModel(graph, cluster), planner="equal_rows").plan
    given = {spec.name: np.ones(spec.shape, np.float32) for spec in graph.input_specs}

    def drain() -> dict[str, Any]:
        assert main(["drain", "d1", "--cluster", str(path), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    with pt.deploy(plan, graph, cluster, recover=True) as session:
        (before,) = session.run([given])
        done = threading.Event()
        answers: list[Any] = []

        def ask() -> None:
            while not done.is_set():
                answers.extend(session.run([given]))

        load = threading.Thread(target=ask)
        load.start()
        try:
            reply = drain()
        finally:
            done.set()
            load.join()
        assert reply["device"] == "d1"
        assert len(reply["leaders"]) == 1
        assert "d1" not in {part.device for part in session.program.devices}
        for answer in answers:
            for name, array in answer.items():
                assert abs(array - before[name]).max() < 1e-5
        assert drain()["leaders"] == reply["leaders"]
    assert main(["drain", "d9", "--cluster", str(path)]) == 2
    assert "d9" in capsys.readouterr().err


def test_a_service_that_is_killed_leaves_nobody_waiting_and_nothing_behind() -> None:
    """Its clients get an error, its workers let go of its plan, and the next one sends nothing."""
    rows = {
        row.case.partition(" of ")[0]: row
        for row in measure(build_model("mobilenet_v2", size=64), 1, 3)
    }
    for case in ("content sent again", "held by a worker after it", "wrong"):
        assert rows[case].met, rows[case]
    assert rows["kill to the last client's error"].ours < _PATIENCE_S
