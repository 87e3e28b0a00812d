"""Keys that change under a service: what a site's owner types, and what its clients notice."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.cli.conftest import tiny_model
from tests.cli.test_serve import SERVE, Service, draw, serve
from tests.models import run_model

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

[[link]]
between = ["*", "*"]
bandwidth = "1 Gbit/s"
"""


class Garage:
    """A site, its workers, and clients that ask their service all the time."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.answers, self.wrong = 0, 0
        self.errors: list[str] = []
        self._array = draw()
        self._right = run_model(tiny_model(), {"x": self._array})[0]

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
    onnx.save(tiny_model(), tmp_path / "m.onnx")
    places = free_addresses(2)
    (tmp_path / "garage.toml").write_text(CLUSTER.format(*places))
    with ExitStack() as stack:
        made = Garage(tmp_path, stack)
        made.type("keys init site --cluster garage.toml")
        made.type("plan m.onnx --cluster garage.toml --planner equal_rows -o plan.json")
        for name in ("d0", "d1"):
            made.start(name)
        yield made


def read_version(service: Service) -> int:
    """The version of the model that answers."""
    with urllib.request.urlopen(f"{service.reply['url']}/v2/models/m") as answer:
        return int(json.load(answer)["versions"][0])


def test_keys_change_under_a_service(garage: Garage, capsys: pytest.CaptureFixture[str]) -> None:
    """Rotated, drained, revoked, in use or not: no client notices, and all is seen by who looks."""
    words = ["m=plan.json", "--join", "site/leader.join", "--recover", "--planner", "equal_rows"]
    over = threading.Event()
    with serve(*words) as service:
        client = threading.Thread(target=garage.ask, args=(service, over))
        client.start()
        try:
            garage.until(lambda: garage.answers > 0)
            garage.type("keys rotate")
            garage.until(lambda: read_version(service) == 2)
            garage.type("drain d1 --cluster garage.toml --join site/leader.join")
            garage.until(lambda: garage.count("d1", "joining anew") == 1)
            garage.type("keys revoke front")
            garage.until(lambda: garage.count("d0", "'front': in no more by join file") == 1)
            garage.until(lambda: read_version(service) == 3)
            garage.type("keys revoke d1")
            garage.until(lambda: garage.count("d0", "'d1', 'front': in no more") == 1)
            garage.until(lambda: read_version(service) == 4)
            capsys.readouterr()
            garage.type("top --once --json --cluster garage.toml --join site/leader.join")
            seen = json.loads(capsys.readouterr().out)
        finally:
            over.set()
            client.join()
    assert (garage.errors, garage.wrong) == ([], 0)
    assert any("revoked" in event["text"] for event in seen["events"]), seen["events"]
    assert {device["name"]: device["state"] for device in seen["devices"]}["d1"] == "lost"
