"""Fronts whose workers are killed, frozen and drained under load, and one that is killed itself."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.planners.fakes import make_chain
from tests.serve.fronts import PATIENCE_S, Source, serving

import partita as pt
from partita.cli import main
from partita.cluster import Cluster, Device, dump_cluster
from partita.compile import WholeModel
from partita.lab import Lab, LabOptions, start_lab
from partita.serve import Front

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
NAMES = ("d0", "d1", "d2", "d3")
GRAPH = make_chain(4, height=12)
_CLIENTS = 2
#: Answers that each front still gives after whatever happens.
_AFTER = 8
_FRONT = """
import sys
from pathlib import Path
from tests.faults.test_front import run_front
run_front(Path(sys.argv[1]))
"""


@contextlib.contextmanager
def open_front(path: Path) -> Iterator[str]:
    """A front of the network on the workers of a cluster file, going on after losses; its URL."""
    cluster = pt.load_cluster(path)
    plan = pt.find_plan(pt.CostModel(GRAPH, cluster), planner="equal_rows").plan
    plan = msgspec.structs.replace(plan, in_flight=_CLIENTS)
    source = Source("m", lambda: pt.deploy(plan, GRAPH, cluster, recover=True))
    with Front([source], queue=2) as front, serving(front) as url:
        yield url


def run_front(path: Path) -> None:
    """A front that says where it is, and goes on until standard input ends."""
    with open_front(path) as url:
        print(url, flush=True)
        sys.stdin.read()


class Clients:
    """Threads that ask a front all the time, each a question of its own, until it is gone.

    Attributes:
        right: Answers that are the whole network's.
        odd: What else was answered, but that there is no room.
        gone: Clients whose connection broke.
    """

    def __init__(self, url: str) -> None:
        self.right = self.gone = 0
        self.odd: list[Any] = []
        self._place = url.removeprefix("http://")
        self._changed = threading.Condition()
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(_CLIENTS)]
        for thread in self._threads:
            thread.start()

    def await_more(self, count: int) -> None:
        """Wait until so many more right answers are there."""
        with self._changed:
            wanted = self.right + count
            assert self._changed.wait_for(lambda: self.right >= wanted or self.odd, PATIENCE_S)
            assert not self.odd

    def end(self) -> None:
        """Ask no more; nobody is left without an answer or an error."""
        self._done.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def _ask(self, number: int) -> None:
        (spec,) = GRAPH.input_specs
        array = np.random.default_rng(number).standard_normal(spec.shape, np.float32)
        ((name, expected),) = WholeModel(GRAPH).run({spec.name: array}).items()
        tensor = {"name": spec.name, "datatype": "FP32", "shape": list(spec.shape)}
        body = json.dumps({"inputs": [tensor | {"data": array.ravel().tolist()}]})
        connection = http.client.HTTPConnection(self._place, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            while not self._done.is_set():
                try:
                    connection.request("POST", "/v2/models/m/infer", body)
                    answer = connection.getresponse()
                    told = json.loads(answer.read())
                except TimeoutError:
                    self._count(odd="silence")
                    return
                except (ConnectionError, http.client.HTTPException):
                    self._count(gone=1)
                    return
                if answer.status == 503:
                    continue
                got = told["outputs"][0] if answer.status == 200 else {"name": told}
                is_right = got["name"] == name and np.allclose(
                    got["data"], expected.ravel(), rtol=0, atol=1e-5 * abs(expected).max()
                )
                self._count(right=1) if is_right else self._count(odd=(answer.status, got))

    def _count(self, right: int = 0, gone: int = 0, odd: Any = None) -> None:
        with self._changed:
            self.right, self.gone = self.right + right, self.gone + gone
            self.odd += [] if odd is None else [odd]
            self._changed.notify_all()


@pytest.fixture
def placed(tmp_path: Path) -> Iterator[tuple[Lab, Path]]:
    """Four worker processes, and a cluster file that says where they are."""
    cluster = replace(Cluster.of([Device(n, kind="raspberry-pi-4") for n in NAMES]), name="yard")
    options = LabOptions(store=tmp_path / "store", name="yard", shaped=False)
    with start_lab(cluster, options) as lab:
        there = tuple(replace(d, address=lab.addresses[d.name]) for d in cluster.devices)
        path = tmp_path / "yard.toml"
        path.write_bytes(dump_cluster(replace(cluster, devices=there)).encode())
        yield lab, path


@contextlib.contextmanager
def other_front(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A front in a process of its own; it may have ended by the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", _FRONT, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"},
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_every_request_to_two_fronts_is_answered_whatever_happens(
    placed: tuple[Lab, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Workers are lost, the requester for a moment; then a front, whose clients get an error."""
    lab, path = placed
    strikes: list[Callable[[], None]] = [
        lambda: _restart(lab, "d0"),
        lambda: lab.kill("d3"),
        lambda: lab.freeze("d2"),
        lambda: _drain("d1", path),
    ]
    with open_front(path) as url, other_front(path) as (process, other_url):
        fronts = Clients(url), Clients(other_url)
        try:
            for strike in strikes:
                for clients in fronts:
                    clients.await_more(_AFTER)
                strike()
            for clients in fronts:
                clients.await_more(_AFTER)
            process.send_signal(signal.SIGKILL)
            fronts[0].await_more(_AFTER)
        finally:
            fronts[1].end()
            fronts[0].end()
        assert fronts[1].gone == _CLIENTS
        assert (fronts[0].gone, fronts[0].odd, fronts[1].odd) == (0, [], [])
    assert len(json.loads(capsys.readouterr().out)["leaders"]) == 2


def _restart(lab: Lab, device: str) -> None:
    lab.kill(device)
    lab.restart(device)


def _drain(device: str, path: Path) -> None:
    assert main(["drain", device, "--cluster", str(path), "--json"]) == 0
