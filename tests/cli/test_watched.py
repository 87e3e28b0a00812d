"""Looking at a run: in the terminal, on a page, and from another process."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from partita.cli.actions import deployed, top
from partita.cli.actions.watched import check_page, watch_session
from partita.cli.flags import WatchFlags
from partita.cluster import Cluster, Device, dump_cluster
from partita.errors import InputError, LinkError, RunError
from partita.lab import LabOptions, start_lab
from partita.leader import Sample, deploy, find_leaders, put_off
from partita.leader.relay import TRIAL
from partita.live import LiveView, RemoteSession, Scene, offer_scene, view
from tests.cli.conftest import Ask
from tests.live.samples import scene_of
from tests.memory_lab import memory_lab
from tests.worker.tiny import random_inputs, tiny_chain

#: Nobody waits longer for news.
PATIENCE_S = 20.0
TINY = tiny_chain(3, 3, in_flight=2, credit=2)
NAMES = tuple(part.device for part in TINY.program.devices)


class Known:
    """What is known of plans; counts how often it looks ahead."""

    def __init__(self) -> None:
        self.looked = 0
        self.model = "net"

    def look_ahead(self) -> None:
        """Count."""
        self.looked += 1

    def describe(self, plan_hash: str) -> Scene | None:
        """A scene of the plan that runs."""
        return scene_of(*NAMES) if plan_hash == TINY.program.plan_hash else None


def test_a_run_is_seen_in_the_terminal_on_a_page_and_from_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All three show the same session, and end with it."""
    known = Known()
    with memory_lab([Device(name) for name in NAMES]) as lab, deploy(TINY, lab.endpoint) as session:
        with watch_session(session, known, WatchFlags(top=True, page=0)):  # type: ignore[arg-type]
            session.run(random_inputs(TINY.program, 6))
            found = re.search(r"live page: (http://\S+)", capsys.readouterr().err)
            assert found is not None
            with urllib.request.urlopen(found[1] + "live.json") as answer:
                now = json.load(answer)
            assert (now["answers"], now["title"]) == (6, "net on lab")
            viewer = lab.fabric.endpoint("viewer")
            remote = RemoteSession(viewer, "leader")
            assert remote.sample(0).answers == 6
            scene = remote.describe(TINY.program.plan_hash)
            assert scene is not None
            assert scene.title == "net on lab"
            assert remote.describe("another") is None
            viewer.close()
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(found[1] + "live.json", timeout=1)
    assert known.looked == 1


def test_a_page_s_port_that_is_taken_is_said_before_anything_is_deployed() -> None:
    """One line; a port that is free stays free until the page takes it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"Port {port} of 127.0.0.1 cannot be used"):
            check_page(port)
    check_page(port)
    check_page(port)


def test_who_is_not_asked_for_costs_nothing() -> None:
    """Without flags nobody looks ahead and nothing is served, but others may ask."""
    known = Known()
    with memory_lab([Device(name) for name in NAMES]) as lab, deploy(TINY, lab.endpoint) as session:
        before = threading.active_count()
        with watch_session(session, known, WatchFlags()):  # type: ignore[arg-type]
            assert threading.active_count() == before
    assert known.looked == 0


@pytest.mark.slow
def test_top_finds_the_leader_of_a_plan_that_runs_elsewhere(ask: Ask, tmp_path: Path) -> None:
    """From the workers' addresses alone: what runs, how often it answered; nothing is disturbed."""
    cluster = Cluster.of(list(NAMES))
    with start_lab(cluster, LabOptions(name="seen", store=tmp_path / "store")) as lab:
        placed = [Device(name, address=lab.addresses[name]) for name in NAMES]
        text = dump_cluster(Cluster("seen", NAMES[0], tuple(placed), cluster.links))
        Path("seen.toml").write_text(text)
        nothing = ask("top", "--cluster", "seen.toml", "--once")
        assert nothing.code == 4
        assert "No plan runs" in nothing.message
        with deploy(TINY, lab.endpoint) as session:
            offer_scene(session.calls, Known().describe)
            session.run(random_inputs(TINY.program, 5))
            seen = ask("top", "--cluster", "seen.toml", "--json")
            assert seen.code == 0, seen.err
            assert (seen.reply["answers"], seen.reply["title"]) == (5, "net on lab")
            assert "d1" in ask("top", "--cluster", "seen.toml", "--once").out
            other = ask("top", "--cluster", "seen.toml", "--leader", "nobody")
            assert "No plan is called 'nobody' on cluster" in other.message
            session.run(random_inputs(TINY.program, 5))


def test_who_looks_on_before_there_is_anything_is_told_what_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is only measured is not shown; the plan is, once it is deployed."""
    monkeypatch.setattr(top, "REFRESH_S", 0.0)
    monkeypatch.setattr(top, "_RETURN_S", 0.0)
    with memory_lab([Device(name) for name in NAMES]) as lab:
        put_off(lab.endpoint, "measuring")
        viewer = lab.fabric.endpoint("viewer")
        remote = RemoteSession(viewer, "leader")
        seen = LiveView(remote.sample, remote.describe)
        with deploy(TINY, lab.endpoint, TRIAL) as session:
            session.run(random_inputs(TINY.program, 1))
            assert find_leaders(viewer) == ["leader"]
            with pytest.raises(RunError, match="'leader' does not answer: it is measuring"):
                top._await_news(seen)
        monkeypatch.setattr(top, "_RETURN_S", PATIENCE_S)
        with deploy(TINY, lab.endpoint) as session:
            turns = iter([RunError("it is measuring")] * 2)

            def take(since: int) -> Sample:
                for error in turns:
                    raise error
                return session.sample(since)

            capsys.readouterr()
            top._await_news(LiveView(take, lambda plan_hash: None))
            assert capsys.readouterr().err == "it is measuring\n"
            assert seen.snapshot().down == ""
        viewer.close()


def test_a_worker_that_is_absent_is_done_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By what recovers, and soon; the requester is needed, and so is everybody else by others."""
    monkeypatch.setattr(deployed, "_SOON_S", 0.01)
    monkeypatch.setattr(deployed, "_WAIT_S", 0.02)
    with memory_lab([Device("a")]) as lab:
        find = partial(deployed._await_workers, lab.endpoint)
        assert find(["a"], "a", recovers=True) == {}
        absent = find(["a", "b"], "a", recovers=True)
        assert absent == {"b": "its worker is not there (start it)"}
        assert capsys.readouterr().err == ("going on without device 'b': not there after 0.01 s\n")
        for requester, recovers in (("b", True), ("a", False)):
            with pytest.raises(LinkError, match="Worker 'b' is not there after"):
                find(["a", "b"], requester, recovers=recovers)


def test_top_follows_who_takes_the_place_of_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers are added to those of the one that is gone, whose loss is an event."""
    monkeypatch.setattr(view, "_FRESH_S", 0.0)
    monkeypatch.setattr(top, "_RETURN_S", 0.2)
    with memory_lab([Device(name) for name in NAMES]) as lab:
        viewer = lab.fabric.endpoint("viewer")
        remote = RemoteSession(viewer, "leader")
        seen, successors = (
            LiveView(remote.sample, remote.describe),
            top.Successors(viewer, remote),
        )
        with deploy(TINY, lab.endpoint) as session:
            offer_scene(session.calls, Known().describe)
            session.run(random_inputs(TINY.program, 4))
            assert seen.snapshot().answers == 4
            assert successors.find("net on lab") == "leader leader answers again"
        lab.endpoint.close()
        assert successors.find("net on lab") is None
        with (
            contextlib.closing(lab.fabric.endpoint("leader-2")) as second,
            deploy(TINY, second) as session,
        ):
            offer_scene(session.calls, Known().describe)
            assert successors.find("another") is None
            told = successors.find("net on lab")
            assert told == "leader leader is gone, leader-2 took its place"
            seen.note("led", told)
            session.run(random_inputs(TINY.program, 2))
            now = seen.snapshot()
            assert (now.answers, now.events[0].text) == (6, told)
        viewer.close()


def test_top_needs_addresses(ask: Ask) -> None:
    """Workers of an emulated cluster without addresses are nobody else's."""
    answer = ask("top", "--cluster", "pair.toml")
    assert answer.code == 2
    assert "has no addresses" in answer.message
