"""Leaders that are killed and started again, and devices drained from another shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.planners.fakes import make_chain

import partita as pt
from partita.cli import main
from partita.cluster import Cluster, Device, dump_cluster
from partita.errors import RunError
from partita.lab import Lab, LabOptions, start_lab
from partita.leader.worker_group import WorkerGroup
from partita.worker.messages import OfEpoch, Stats

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
NAMES = ("d0", "d1", "d2")
#: From the start of the new leader's process to its first answer.
_WITHIN_S = 5.0
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


@pytest.fixture
def placed(tmp_path: Path) -> Iterator[tuple[Lab, Path]]:
    """Three worker processes, and a cluster file that says where they are."""
    devices = [Device(name, kind="raspberry-pi-4") for name in NAMES]
    cluster = replace(Cluster.of(devices), name="garage")
    options = LabOptions(store=tmp_path / "store", name="garage", shaped=False)
    with start_lab(cluster, options) as lab:
        there = tuple(replace(d, address=lab.addresses[d.name]) for d in devices)
        path = tmp_path / "garage.toml"
        path.write_bytes(dump_cluster(replace(cluster, devices=there)).encode())
        yield lab, path


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
    """At once, without sending anything; what the killed one held is gone."""
    lab, path = placed
    group = WorkerGroup(lab.endpoint, NAMES)
    first, (old, pushed_bytes) = _lead(path)
    assert pushed_bytes > 0
    group.ask("d1", "stats", OfEpoch(old), Stats)
    first.send_signal(signal.SIGKILL)
    began_s = time.monotonic()
    second, (new, pushed_bytes) = _lead(path)
    took_s = time.monotonic() - began_s
    try:
        assert pushed_bytes == 0
        assert took_s < _WITHIN_S
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
        assert {part.device for part in session.program.devices} == {"d0", "d2"}
        for answer in answers:
            for name, array in answer.items():
                assert abs(array - before[name]).max() < 1e-5
        assert drain()["leaders"] == reply["leaders"]
    assert main(["drain", "d9", "--cluster", str(path)]) == 2
    assert "d9" in capsys.readouterr().err
