"""Labs of worker processes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import psutil
import pytest
from benchmarks.harness import whole_plan
from tests.worker.tiny import expected_chain, random_inputs, tiny_chain, tiny_halo, tiny_replicas

from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.errors import RunError
from partita.graph import load_graph
from partita.lab import Lab, LabOptions, start_lab
from partita.lab.places import Place
from partita.lab.processes import LabPlan
from partita.leader import deploy, measure_link
from partita.leader.ports import measure_port
from partita.zoo import build_model

pytestmark = pytest.mark.slow

_NAMESPACES = os.geteuid() == 0 and shutil.which("ip") and shutil.which("tc")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Four worker processes on shaped links."""
    cluster = Cluster.of([Device(f"d{n}") for n in range(4)], latency_s=0.001)
    with start_lab(cluster, LabOptions(store=tmp_path_factory.mktemp("store"))) as running:
        yield running


def test_processes_answer_exactly(lab: Lab) -> None:
    """A pipeline over four processes with requests in flight answers each input, in order."""
    tiny = tiny_chain(4, 4, in_flight=3, credit=2)
    with deploy(tiny, lab.endpoint) as session:
        inputs = random_inputs(tiny.program, 20)
        for given, got in zip(inputs, session.run(inputs), strict=True):
            np.testing.assert_array_equal(got["t3"], expected_chain(tiny.program, given["input"]))
        report = session.report()
    # Four links of 1 ms each way: no answer can come sooner.
    assert min(report.latencies_s) > 0.004
    assert {(use.source, use.target) for use in report.links} == {
        ("d0", "d1"), ("d1", "d2"), ("d2", "d3"), ("d3", "d0"),
    }  # fmt: skip


def test_halves_and_replicas_run_on_the_same_workers(lab: Lab) -> None:
    """Two more programs run one after the other on workers that are already up."""
    for tiny in (tiny_halo(), tiny_replicas()):
        with deploy(tiny, lab.endpoint) as session:
            assert len(session.run(random_inputs(tiny.program, 6))) == 6


def test_many_connections_may_end_at_once(lab: Lab) -> None:
    """Each that is written to may take one of Zenoh's threads then, and one has to be left."""
    for process in lab.processes.values():
        names = [each.read_text() for each in Path(f"/proc/{process.pid}/task").glob("*/comm")]
        assert sum(name.startswith("tx-") for name in names) >= 8


def test_of_two_workers_one_connects_to_the_other(tmp_path: Path) -> None:
    """In two directions at once, one that was frozen would not know the other any more."""
    cluster = Cluster.of([Device(f"d{n}") for n in range(4)])
    places = {name: Place(f"tcp/127.0.0.1:{number}") for number, name in enumerate(cluster.names)}
    plan = LabPlan(cluster, LabOptions(), tmp_path, places)
    networks = [plan.worker(device).network for device in cluster.devices]
    pairs = [{*one.listen, other} for one in networks for other in one.connect]
    assert not any(one.discovers for one in networks)
    assert sorted(map(sorted, pairs)) == sorted(
        sorted(pair) for pair in combinations([place.address for place in places.values()], 2)
    )


def test_timelines_of_several_devices_fit_together(lab: Lab) -> None:
    """No piece is received before it was sent, on clocks that were brought together."""
    tiny = tiny_chain(2, 2)
    with deploy(tiny, lab.endpoint) as session:
        session.run(random_inputs(tiny.program, 3))
        spans = session.report().spans
    for request in range(3):
        sent = next(s for s in spans if s.lane == "send:d1" and s.request == request)
        got = next(s for s in spans if s.lane == "receive" and s.request == request)
        assert got.start_s > sent.start_s


def test_an_idle_worker_is_small(lab: Lab) -> None:
    """A worker process that has nothing to do takes at most 120 MB."""
    for process in lab.processes.values():
        assert psutil.Process(process.pid).memory_info().rss <= 120e6


def test_a_loaded_plan_holds_its_weights_about_once(lab: Lab) -> None:
    """What loading took for a while is given back: without, this network holds 60 MB."""
    graph = load_graph(build_model("mobilenet_v2"))
    plan = whole_plan(graph, lab.cluster, "d1")
    given = {name: np.zeros(graph.tensors[name].shape, np.float32) for name in graph.inputs}
    before = _private_bytes(lab, "d1")
    with deploy(compile_plan(graph, plan, lab.cluster), lab.endpoint) as session:
        session.run([given])
        stats = session.stats()
    assert graph.weight_bytes < stats["d1"].resident_bytes < 3 * graph.weight_bytes
    assert stats["d0"].resident_bytes < 10e6
    # Over, it is given back: without, the worker holds 28 MB more than before.
    kept = _private_bytes(lab, "d1") - before
    assert kept < graph.weight_bytes


def _private_bytes(lab: Lab, device: str) -> int:
    status = Path(f"/proc/{lab.processes[device].pid}/status").read_text().split()
    return int(status[status.index("RssAnon:") + 1]) * 1024


def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    """When a worker ends at once, its last words are in the error."""
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    cluster = Cluster.of([Device("d0")])
    with (
        pytest.raises(RunError, match=r"'d0' of the lab ended at once: .*file"),
        start_lab(cluster, LabOptions(store=blocked / "store")),
    ):
        pass


@pytest.mark.skipif(not _NAMESPACES, reason="network namespaces need root and iproute2")
def test_namespaces_limit_rates_and_are_removed(tmp_path: Path) -> None:
    """The kernel's rate shows in the time of a large message, and nothing is left afterwards."""
    cluster = Cluster.of([Device("a"), Device("b")], bandwidth_bytes_per_s=5e6, latency_s=0.0)
    with start_lab(cluster, LabOptions(store=tmp_path, network="netns")) as running:
        sample = measure_link(running.endpoint, "a", "b", [10**6], repeats=2)[0]
    assert sample.seconds > 0.9 * 10**6 / 5e6
    left = [name for name in psutil.net_if_addrs() if name.startswith(f"pt{os.getpid()}")]
    assert left == []


@pytest.mark.skipif(not _NAMESPACES, reason="network namespaces need root and iproute2")
@pytest.mark.parametrize("limited", ["a", "b"])
def test_namespaces_limit_ports_in_both_directions(limited: str, tmp_path: Path) -> None:
    """A slow port shows in a message of a fast link, at the sender as at the receiver."""
    devices = [Device(n, port_bytes_per_s=5e6 if n == limited else None) for n in ("a", "b")]
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=50e6, latency_s=0.0)
    with start_lab(cluster, LabOptions(store=tmp_path, network="netns")) as running:
        sample = measure_link(running.endpoint, "a", "b", [10**6], repeats=2)[0]
    assert 0.9 * 10**6 / 5e6 < sample.seconds < 5 * 10**6 / 5e6
    left = [name for name in psutil.net_if_addrs() if name.startswith(f"pt{os.getpid()}")]
    assert left == []


@pytest.mark.skipif(not _NAMESPACES, reason="network namespaces need root and iproute2")
def test_ports_of_namespaces_are_found(tmp_path: Path) -> None:
    """Where the kernel shares one rate among a device's links the device has a port of it."""
    devices = [Device(n, port_bytes_per_s=5e6 if n == "a" else None) for n in ("a", "b", "c")]
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=5e6, latency_s=0.0)
    with start_lab(cluster, LabOptions(store=tmp_path, network="netns")) as running:
        shared, free = (measure_port(running.endpoint, name, cluster.links) for name in "ab")
    assert shared.bytes_per_s == pytest.approx(5e6, rel=0.1)
    assert free.bytes_per_s is None
