"""Workers that are upgraded one after the other while requests are answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.recovery import Load
from tests.faults.under_load import DEVICES, under_load, used, wait_until

from partita.cluster import Cluster
from partita.lab import Lab, LabOptions, start_lab
from partita.lab.processes import spawn
from partita.leader import Session

pytestmark = pytest.mark.slow


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Three worker processes of this version."""
    options = LabOptions(store=tmp_path / "store", shaped=False, name="garage")
    with start_lab(replace(Cluster.of(DEVICES), name="garage"), options) as running:
        yield running


def placed(lab: Lab) -> Cluster:
    """The cluster with the addresses of its workers."""
    there = tuple(replace(d, address=lab.addresses[d.name]) for d in lab.cluster.devices)
    return replace(lab.cluster, devices=there)


def start_again(lab: Lab, device: str, **versions: Any) -> None:
    """End a worker in order, and start it as one that announces other versions."""
    ended = lab.processes[device]
    ended.terminate()
    ended.wait()
    assert ended.stdin is not None
    ended.stdin.close()
    options = replace(lab.plan.worker(lab.cluster.device(device)), **versions)
    lab.processes[device] = spawn(options, lab.plan.directory)


def upgrade(lab: Lab, session: Session, load: Load, device: str) -> None:
    """Drain a device, start another version of its worker, and wait until it may be used."""
    session.drain(device)
    assert device not in used(session)
    start_again(lab, device, version="0.2.0")
    wait_until(lambda: device not in session.lost.devices, load)


def test_workers_are_upgraded_one_after_the_other_without_a_lost_request(lab: Lab) -> None:
    """While one is upgraded the other answers alone, whichever version it is of."""
    with under_load(placed(lab)) as (session, load):
        upgrade(lab, session, load, "d1")
        upgrade(lab, session, load, "d2")
        session.drain("d1")
        wait_until(lambda: "d1" not in used(session), load)
        assert "d2" in used(session)
        assert session.infos["d2"].version == "0.2.0"


def test_a_worker_of_another_protocol_is_left_alone(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """The session goes on without it, says why, and takes it once it is of this one again."""
    with under_load(placed(lab)) as (session, load):
        session.drain("d1")
        start_again(lab, "d1", version="9.0.0", protocol=99)
        wait_until(lambda: "it runs partita 9.0.0 (protocol 99)" in caplog.text, load)
        assert session.lost.devices == ("d1",)
        start_again(lab, "d1")
        wait_until(lambda: not session.lost.devices, load)
