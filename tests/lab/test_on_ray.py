"""Workers that Ray places: where they listen, and on nodes of this machine that they come back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from tests.fabric.sites import new_site
from tests.faults.under_load import DEVICES, under_load, used, wait_until
from tests.processes import PARTITA

import partita as pt
from partita.cluster import Cluster, Device, dump_cluster
from partita.errors import ClusterError, RunError
from partita.lab import on_ray
from partita.lab.on_ray import Node, RayFleet, RayOptions, assign_addresses, place_on_ray
from partita.lab.on_ray import plan_workers as plan
from partita.lab.ports import free_addresses, hold_addresses

NODES = (
    Node("192.0.2.7", frozenset({"CPU", "partita/nano"})),
    Node("192.0.2.8", frozenset({"CPU", "partita/box", "partita/camera"})),
)
GARAGE = replace(
    Cluster.of([Device("nano", slow_down=4.0), Device("box"), Device("camera")]), name="garage"
)
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def test_workers_listen_where_their_nodes_are() -> None:
    """Devices of one node follow each other, two ports each; control has the second."""
    assert assign_addresses(GARAGE, NODES, is_secure=False) == {
        "nano": "tcp/192.0.2.7:7447",
        "box": "tcp/192.0.2.8:7447",
        "camera": "tcp/192.0.2.8:7449",
    }


def test_an_address_of_the_file_is_kept_and_its_port_given_to_nobody_else() -> None:
    """With join files all are addresses with credentials."""
    camera = Device("camera", address="tcp/192.0.2.8:7447")
    cluster = replace(GARAGE, devices=(*GARAGE.devices[:2], camera))
    assert assign_addresses(cluster, NODES, is_secure=True) == {
        "nano": "tls/192.0.2.7:7447",
        "box": "tls/192.0.2.8:7449",
        "camera": "tls/192.0.2.8:7447",
    }


def test_a_device_without_a_node_is_named_with_those_that_have_one() -> None:
    """And so is what to type."""
    with pytest.raises(
        RunError, match="'camera': none offers the resource 'partita/camera'"
    ) as told:
        plan(GARAGE, (NODES[0], Node("192.0.2.8", frozenset({"partita/box"}))), RayOptions())
    assert "offered are 'partita/box', 'partita/nano'" in told.value.message
    assert "ray start --resources '{\"partita/camera\": 1}'" in told.value.message


def test_workers_get_their_join_files(tmp_path: Path) -> None:
    """Without, addresses beyond this machine are refused; a file of another cluster is, too."""
    cluster = replace(GARAGE, devices=GARAGE.devices[:2])
    with pytest.raises(ClusterError, match="without credentials"):
        plan(cluster, NODES, RayOptions())
    assert plan(cluster, NODES, RayOptions(insecure=True))["box"].network.tls is None
    new_site(tmp_path / "site")
    worker = plan(cluster, NODES, RayOptions(tmp_path / "site", is_emulated=True))["nano"]
    assert worker.network.listen == ("tls/192.0.2.7:7447",)
    assert worker.network.connect == ("tls/192.0.2.8:7447",)
    assert {member.name for member in worker.network.members} >= {"nano", "leader"}
    assert worker.slow_down == 4.0
    new_site(tmp_path / "barn", "barn")
    with pytest.raises(ClusterError, match=r"'nano' in cluster 'barn': needed is .* in 'garage'"):
        plan(cluster, NODES, RayOptions(tmp_path / "barn"))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A Ray of three nodes on this machine: a head, and two that offer devices."""
    from ray.cluster_utils import Cluster as Nodes

    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        for names in (("d0", "d1"), ("d2",)):
            nodes.add_node(num_cpus=1, resources={f"partita/{name}": 1 for name in names})
        nodes.wait_for_nodes()
        yield nodes.address
    finally:
        nodes.shutdown()


@needs_ray
@pytest.mark.parametrize("form", ["{}", "ray://{}"])
def test_an_address_where_nobody_is_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Ray itself would wait for it without end."""
    (address,) = free_addresses(1)
    place = form.format(address.removeprefix("tcp/"))
    monkeypatch.setenv("RAY_ADDRESS", place)
    words = f"nobody answers at RAY_ADDRESS {place}: Connection refused"
    with pytest.raises(RunError, match=words), on_ray.connect_to_ray():
        pass


@pytest.mark.parametrize(
    ("named", "words"),
    [("10.0.0.1:6379", "at RAY_ADDRESS 10.0.0.1:6379"), (None, "where Ray ran last")],
)
def test_what_never_answers_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, named: str | None, words: str
) -> None:
    """A port of something else, or a file that names a Ray that is gone."""
    forever = threading.Event()
    monkeypatch.setattr(on_ray, "_CONNECT_S", 0.01)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if named:
        monkeypatch.setenv("RAY_ADDRESS", named)
    ray = SimpleNamespace(init=lambda **_: forever.wait())
    with pytest.raises(ConnectionError, match=f"no Ray answers {words} within 0.01 s"):
        on_ray._init(ray)
    forever.set()


def test_why_ray_refuses_is_told() -> None:
    """What it raises in its thread is raised here."""

    def refuse(**_: object) -> None:
        raise ValueError("that is no address")

    with pytest.raises(ValueError, match="that is no address"):
        on_ray._init(SimpleNamespace(init=refuse))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three devices with addresses on loopback, which nobody else gets."""
    with hold_addresses(len(DEVICES)) as addresses:
        devices = [replace(d, address=a) for d, a in zip(DEVICES, addresses, strict=True)]
        yield replace(Cluster.of(devices), name="garage")


@pytest.fixture
def fleet(address: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayFleet]:
    """The workers on Ray."""
    monkeypatch.setenv("RAY_ADDRESS", address)
    with place_on_ray(cluster, RayOptions()) as placed:
        yield placed


def kill(pid: int | None) -> None:
    """End a process as a crash would."""
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@needs_ray
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_an_actor_that_is_killed_comes_back_and_is_used_again(fleet: RayFleet) -> None:
    """And so is a worker whose own process is killed; no request is lost."""
    with under_load(fleet.cluster) as (session, load):
        workers = fleet.pids()
        kill(psutil.Process(workers["d1"]).ppid())
        wait_until(lambda: "d1" in session.lost.devices, load)
        wait_until(lambda: not session.lost.devices, load)
        kill(workers["d2"])
        wait_until(lambda: "d2" in session.lost.devices, load)
        assert "d1" in used(session)
        wait_until(lambda: not session.lost.devices, load)
        session.drain("d1")
        wait_until(lambda: "d2" in used(session), load)
        again = fleet.pids()
    assert again["d0"] == workers["d0"]
    assert again["d1"] not in (None, workers["d1"])
    assert again["d2"] not in (None, workers["d2"])


@needs_ray
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_device_that_is_placed_already_is_not_placed_twice(
    fleet: RayFleet, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its resource is in use, which is said; the workers that are there stay."""
    monkeypatch.setattr(on_ray, "_PLACE_S", 3.0)
    with (
        pytest.raises(RunError, match=r"Ray started no worker for 'd0' within 3 s.*'partita/d0'"),
        place_on_ray(cluster, RayOptions()),
    ):
        pass
    assert None not in fleet.pids().values()


@needs_ray
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_lab_and_serve_on_ray(
    address: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands place workers, tell where they are, and leave none behind."""
    import httpx
    import onnx
    from tests.cli.conftest import tiny_model

    monkeypatch.setenv("RAY_ADDRESS", address)
    onnx.save(tiny_model(), tmp_path / "m.onnx")
    (tmp_path / "garage.toml").write_text(dump_cluster(cluster))
    with partita("lab", "garage.toml", "--on", "ray", "-o", "placed.toml", folder=tmp_path) as told:
        devices = {device["name"]: device for device in told["devices"]}
        assert devices["d1"]["address"] == cluster.device("d1").address
        assert pt.load_cluster(tmp_path / "placed.toml").names == cluster.names
        workers = [psutil.Process(device["pid"]) for device in devices.values()]
        kill(workers[1].ppid())
        await_words(tmp_path / "lab.err", "worker 'd1' runs as process")
    assert psutil.wait_procs(workers, timeout=10)[1] == []
    words = ("serve", "m.onnx", "--cluster", "garage.toml", "--planner", "single", "--on", "ray")
    with partita(*words, "--listen", "127.0.0.1:0", folder=tmp_path) as told:
        assert told["models"] == ["m"]
        sent = {"name": "x", "shape": [1, 3, 16, 16], "datatype": "FP32", "data": [0.5] * 768}
        answer = httpx.post(f"{told['url']}/v2/models/m/infer", json={"inputs": [sent]}, timeout=30)
        assert len(answer.json()["outputs"][0]["data"]) == 5


@contextlib.contextmanager
def partita(*words: str, folder: Path) -> Iterator[dict[str, Any]]:
    """A command that goes on, and what it told first; it ends in order."""
    with (folder / f"{words[0]}.err").open("wb") as log:
        process = subprocess.Popen(
            [*PARTITA, *words, "--json"],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline() or "{}")
    finally:
        process.terminate()
        more, _ = process.communicate(timeout=60)
    assert process.returncode in (0, 128 + signal.SIGTERM)
    assert more == b"", "Ray has words of its own"


def await_words(path: Path, words: str) -> None:
    """Return when a file has some words."""
    deadline_s = time.monotonic() + 60
    while words not in path.read_text():
        assert time.monotonic() < deadline_s, path.read_text()
        time.sleep(0.05)
