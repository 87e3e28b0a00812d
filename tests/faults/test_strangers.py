"""Worker processes that the cluster file does not name."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.planners.fakes import make_chain

import partita as pt
from partita.execution.adapt import LOSSES_ONLY
from partita.lab import Lab
from partita.lab.ports import free_addresses

pytestmark = pytest.mark.slow

#: Strangers are what their entry says, at the ends of links for everybody.
ENTRY = """
[[device]]
name = "*"
kind = "raspberry-pi-4"

[[link]]
between = ["*", "*"]
bandwidth = "1 Gbit/s"
"""
_PARTITA = "from partita.cli import start; raise SystemExit(start())"
_PATIENCE_S = 30.0


@contextlib.contextmanager
def stranger(lab: Lab, folder: Path) -> Iterator[Path]:
    """A worker ``d9`` that knows one of the others; its log."""
    (address,) = free_addresses(1)
    log = folder / "d9.log"
    words = ["worker", "--name", "d9", "--cluster-name", "garage", "--listen", address]
    words += ["--connect", lab.addresses["d1"], "--store", str(folder / "d9")]
    with open(log, "wb") as file:
        worker = subprocess.Popen([sys.executable, "-c", _PARTITA, *words], stderr=file)
    try:
        yield log
    finally:
        worker.terminate()
        worker.wait(_PATIENCE_S)


@contextlib.contextmanager
def session_on(path: Path) -> Iterator[tuple[pt.Session, dict[str, Any]]]:
    """A session on the named devices that takes every plan, and an input for it."""
    graph, cluster = make_chain(3, height=12), pt.load_cluster(path)
    cost = pt.CostModel(graph, cluster)
    plan = pt.find_plan(cost, planner="equal_rows").plan
    watching = replace(LOSSES_ONLY, trial=0, least_gain=float("-inf"))
    adapt = pt.Adapt(cost, planner="equal_rows", options=watching)
    with pt.deploy(plan, graph, cluster, adapt=adapt, recover=True) as session:
        yield session, {spec.name: np.ones(spec.shape, np.float32) for spec in graph.input_specs}


def test_a_stranger_is_used_where_the_file_lets_it_in(placed: tuple[Lab, Path]) -> None:
    """It gets nothing before, and is used by the next plan after; no answer is another one."""
    lab, path = placed
    with stranger(lab, path.parent) as log:
        with session_on(path) as (session, given):
            (right,) = session.run([given])
            while "d9" not in lab.endpoint.peers() or not session.covered:
                session.run([given])
            assert "d9" not in {part.device for part in session.program.devices}
        assert "leader" not in log.read_text()
        path.write_text(path.read_text() + ENTRY)
        with session_on(path) as (session, given):
            deadline_s = time.monotonic() + _PATIENCE_S
            while "d9" not in {part.device for part in session.program.devices}:
                assert time.monotonic() < deadline_s, session.changes
                (answer,) = session.run([given])
                for name, array in answer.items():
                    assert abs(array - right[name]).max() < 1e-5
            session.run([given] * 3)
            assert session.changes[-1].why == "device d9 is there"
        assert "leader" in log.read_text()
