"""Devices that the cluster file does not name come while a session runs, over workers in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.adapting.runs import DEVICES, open_run

from partita.adapting import strangers
from partita.cluster import UNMEASURED, Cluster, Device, Link, Strangers
from partita.leader import Lost, replan_controller, standby_keeper
from partita.profile import MeasureOptions

NEW = Device("d9", kind="raspberry-pi-4", memory_bytes=10**9)


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the leader look often, and measure little."""
    monkeypatch.setattr(replan_controller, "SAMPLE_S", 0.01)
    monkeypatch.setattr(standby_keeper, "_LOOK_S", 0.01)
    few = MeasureOptions(repeats=1, rounds=1)
    monkeypatch.setattr(strangers, "MeasureOptions", lambda **given: replace(few, **given))


def letting_in(kind: str) -> Cluster:
    """The three devices, and links to whoever comes."""
    ends = [(a, b) for name in ("d0", "d1", "d2", "*") for a, b in (("*", name), (name, "*"))]
    links = [Link(*pair, 25e6) for pair in dict.fromkeys(ends)]
    return replace(Cluster.of(DEVICES), strangers=Strangers(Device("*", kind=kind), tuple(links)))


@pytest.mark.parametrize("kind", ["raspberry-pi-4", UNMEASURED])
def test_a_stranger_is_used_by_the_next_plan(kind: str, tmp_path: Path) -> None:
    """It is as fast as the entry says, or as it is measured; it goes and comes like any device."""
    with open_run(letting_in(kind), tmp_path) as run:
        run.until(lambda: True)
        run.lab.start(NEW)
        run.until(lambda: "d9" in run.used)
        change = run.session.changes[-1]
        assert change.why == "device d9 is there"
        model = next(one for one in run.searches if "d9" in one.devices)
        assert model.cluster.device("d9").memory_bytes == 10**9  # as its worker says
        is_measured = model.devices["d9"].facts.wires != {}
        assert is_measured == (kind == UNMEASURED)
        run.lab.fabric.kill("d9")
        run.until(lambda: "recovered" in run.outcomes())
        assert run.session.lost == Lost(("d9",))
        run.lab.start(NEW)
        run.until(lambda: "d9" in run.used)


def test_two_strangers_that_were_there_first_are_used(tmp_path: Path) -> None:
    """One after the other; what announces itself and is no worker is left alone."""
    with open_run(letting_in("raspberry-pi-4"), tmp_path) as run:
        run.lab.fabric.endpoint("viewer").announce(b"")
        for name in ("d8", "d9"):
            run.lab.start(replace(NEW, name=name))
        run.session.begin_traces()
        run.until(lambda: {"d8", "d9"} <= run.used)
        assert all("viewer" not in one.devices for one in run.searches)


def test_without_an_entry_a_stranger_gets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not greeted, nor is it worth a word."""
    with open_run(Cluster.of(DEVICES), tmp_path) as run:
        run.lab.start(NEW)
        run.until(lambda: bool(run.session.covered))
        assert run.used == {"d0", "d1", "d2"}
        assert run.outcomes() == []
        assert caplog.messages == []


def test_a_stranger_that_cannot_be_used_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another version, for instance; the run goes on as before."""
    with open_run(letting_in("raspberry-pi-4"), tmp_path) as run:
        monkeypatch.setattr("partita.leader.worker_group.PROTOCOL_VERSION", 1)
        run.lab.start(NEW)
        run.until(lambda: bool(caplog.messages))
        assert "device 'd9' is not used" in caplog.text
        assert "is of another version" in caplog.text
        assert run.used == {"d0", "d1", "d2"}
