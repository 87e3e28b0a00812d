"""Keys that change under a service: what a site's owner types, and what its clients notice."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.cli.test_serve import SERVE, Service, draw, serve
from tests.models import make_model, run_model

from partita.cli import main
from partita.lab.ports import free_addresses

pytestmark = pytest.mark.slow

_PATIENCE_S = 60.0
CLUSTER = """
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

[[device]]
name = "*"
kind = "raspberry-pi-4"

[[link]]
between = ["*", "*"]
bandwidth = "1 Gbit/s"
"""


def busy_model() -> onnx.ModelProto:
    """Convolutions that one board more makes faster."""
    rng, channels = np.random.default_rng(0), [3, 32, 32, 32, 4]
    nodes, weights = [], {}
    for n, (before, after) in enumerate(pairwise(channels)):
        weights[f"w{n}"] = rng.standard_normal((after, before, 3, 3), np.float32) / 16
        names = ["x" if n == 0 else f"t{n}", f"w{n}"], ["y" if after == 4 else f"t{n + 1}"]
        nodes.append(helper.make_node("Conv", *names, name=f"conv{n}", pads=[1, 1, 1, 1]))
    return make_model(nodes, {"x": [1, 3, 64, 64]}, ["y"], weights)


class Garage:
    """A site, its workers, and clients that ask their service all the time."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.answers, self.wrong = 0, 0
        self.errors: list[str] = []
        self._array = draw((1, 3, 64, 64))
        self._right = run_model(busy_model(), {"x": self._array})[0]

    def type(self, line: str) -> None:
        """Type a command that succeeds."""
        assert main(line.split()) == 0, line

    def start(self, name: str) -> None:
        """Start a worker with its join file."""
        words = ["worker", "--join", f"site/{name}.join", "--store", f"{name}.store"]
        with open(self._folder / f"{name}.log", "wb") as log:
            worker = subprocess.Popen(
                [sys.executable, "-c", SERVE, *words], cwd=self._folder, stderr=log
            )
        self._stack.callback(worker.wait, 20)
        self._stack.callback(worker.terminate)

    def ask(self, service: Service, over: threading.Event) -> None:
        """Ask again and again, and note what comes."""
        while not over.is_set():
            try:
                got = service.ask("m", self._array)
            except Exception as error:  # of whatever kind
                self.errors.append(str(error))
                time.sleep(0.1)
                continue
            self.answers += 1
            self.wrong += not np.allclose(got, self._right, atol=1e-5)

    def count(self, name: str, words: str) -> int:
        """How often a worker has said something."""
        return (self._folder / f"{name}.log").read_text().count(words)

    def until(self, is_done: Callable[[], bool]) -> None:
        """Return when something has happened, and some answers later."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while not is_done():
            assert time.monotonic() < deadline_s, self.errors[-3:]
            time.sleep(0.05)
        enough = self.answers + 5
        while self.answers < enough:
            assert time.monotonic() < deadline_s, self.errors[-3:]
            time.sleep(0.05)


@pytest.fixture
def garage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Garage]:
    """A site of two workers, and a plan for them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    onnx.save(busy_model(), tmp_path / "m.onnx")
    *places, third = free_addresses(3)
    (tmp_path / "garage.toml").write_text(CLUSTER.format(*places))
    with ExitStack() as stack:
        made = Garage(tmp_path, stack)
        made.type("keys init site --cluster garage.toml")
        made.type(f"keys add d9 --address {third}")
        made.type("plan m.onnx --cluster garage.toml --planner equal_rows -o plan.json")
        for name in ("d0", "d1"):
            made.start(name)
        yield made


def test_keys_change_under_a_service(garage: Garage) -> None:
    """Let in, rotated, drained: nobody waits; revoked: errors, until it answers again by itself."""
    words = ["m=plan.json", "--join", "site/leader.join", "--recover", "--planner", "equal_rows"]
    over = threading.Event()
    with serve(*words) as service:
        client = threading.Thread(target=garage.ask, args=(service, over))
        client.start()
        try:
            garage.start("d9")  # let in beforehand: all others know it
            garage.until(lambda: garage.count("d9", "leader 'leader-") == 1)
            garage.type("keys rotate")
            garage.until(lambda: garage.count("d9", "leader 'leader-") > 1)
            for name in ("d1", "d9"):
                garage.type(f"drain {name} --cluster garage.toml --join site/leader.join")
                garage.until(lambda name=name: garage.count(name, "joining anew") == 1)  # type: ignore[misc]
            assert (garage.errors, garage.wrong) == ([], 0)
            garage.type("keys revoke d9")
            garage.until(lambda: garage.count("d0", "joining anew") == 1)
            told = [each for each in garage.errors if "[" not in each]  # no answer of the service
            assert told == []
        finally:
            over.set()
            client.join()
    assert garage.wrong == 0
