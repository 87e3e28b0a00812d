"""Worker processes that the cluster file does not name."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.planners.fakes import make_chain
from tests.processes import worker

import partita as pt
from partita.api import Access
from partita.cli import main
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
_PATIENCE_S = 30.0


def stranger(lab: Lab, folder: Path) -> contextlib.AbstractContextManager[Path]:
    """A worker ``d9`` that knows one of the others; its log."""
    (address,) = free_addresses(1)
    words = ["--name", "d9", "--cluster-name", "garage", "--listen", address]
    return worker("d9", folder, *words, "--connect", lab.addresses["d1"])


@contextlib.contextmanager
def session_on(
    path: Path, access: Access | None = None
) -> Iterator[tuple[pt.Session, dict[str, Any]]]:
    """A session on the named devices that takes every plan, and an input for it."""
    graph, cluster = make_chain(3, height=12), pt.load_cluster(path)
    cost = pt.CostModel(graph, cluster)
    plan = pt.find_plan(cost, planner="equal_rows").plan
    watching = replace(LOSSES_ONLY, trial=0, least_gain=float("-inf"))
    adapt = pt.Adapt(cost, planner="equal_rows", options=watching)
    with pt.deploy(plan, graph, cluster, access, adapt=adapt, recover=True) as session:
        yield session, {spec.name: np.ones(spec.shape, np.float32) for spec in graph.input_specs}


def await_guest(session: pt.Session, given: dict[str, Any], right: dict[str, Any]) -> None:
    """Ask until ``d9`` is used, and a few times more; no answer is another one."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while "d9" not in {part.device for part in session.program.devices}:
        assert time.monotonic() < deadline_s, session.changes
        (answer,) = session.run([given])
        for name, array in answer.items():
            assert abs(array - right[name]).max() < 1e-5
    session.run([given] * 3)
    assert session.changes[-1].why == "device d9 is there"


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
            await_guest(session, given, right)
        assert "leader" in log.read_text()


#: Two named devices; the site's members get their keys by it.
_NAMED = """
[cluster]
name = "garage"
requester = "d0"

[[device]]
name = "d0"
kind = "raspberry-pi-4"
address = "{0}"

[[device]]
name = "d1"
kind = "raspberry-pi-4"
address = "{1}"
"""


def test_a_stranger_with_a_join_file_is_used_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was let in beforehand is used when it comes; one whose file was taken back is not met."""
    monkeypatch.chdir(tmp_path)
    first, second, *others = free_addresses(4)
    Path("garage.toml").write_text(_NAMED.format(first, second) + ENTRY)
    assert main(["keys", "init", "site", "--cluster", "garage.toml"]) == 0
    for name, address in zip(("d9", "d8"), others, strict=True):
        assert main(["keys", "add", name, "--address", address]) == 0
    shutil.copy("site/d8.join", "old.join")
    assert main(["keys", "revoke", "d8"]) == 0
    with contextlib.ExitStack() as stack:
        for name in ("d0", "d1"):
            stack.enter_context(worker(name, tmp_path, "--join", f"site/{name}.join"))
        access = Access(join=Path("site/leader.join"))
        session, given = stack.enter_context(session_on(Path("garage.toml"), access))
        (right,) = session.run([given])
        revoked = stack.enter_context(worker("d8", tmp_path, "--join", "old.join"))
        stack.enter_context(worker("d9", tmp_path, "--join", "site/d9.join"))
        await_guest(session, given, right)
        assert "d8" not in session.infos
        assert "leader" not in revoked.read_text()
