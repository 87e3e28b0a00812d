"""From two bare hosts to a secured run on both: network namespaces, and what a user would type."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
import pytest
from tests.cli.conftest import tiny_model
from tests.processes import PARTITA

from partita.cluster import load_cluster
from partita.lab.netns import Namespaces, open_namespaces

#: What a test that makes namespaces of its own is marked with.
IN_NAMESPACES = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("ip"), reason="namespaces need root and iproute2"
    ),
]
pytestmark = IN_NAMESPACES

CLUSTER = """
[cluster]
name = "garage"
requester = "nano"

[[device]]
name = "nano"
kind = "raspberry-pi-4"
address = "tcp/{nano}:7447"

[[device]]
name = "box"
kind = "raspberry-pi-4"
address = "tcp/{box}:7447"

[[link]]
between = ["*", "*"]
bandwidth = "1 Gbit/s"
"""


class Host:
    """A folder and a namespace, and the commands that were typed there."""

    def __init__(self, space: str, folder: Path) -> None:
        folder.mkdir()
        self._space, self.folder = space, folder
        home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        self._environment = {**os.environ, **home}
        self.typed: list[str] = []
        self._running: list[subprocess.Popen[bytes]] = []

    def type(self, line: str, code: int = 0) -> str:
        """Type a command, wait for its end and return what it printed."""
        done = subprocess.run(
            self._words(line),
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())

    def start(self, line: str, log: str) -> None:
        """Type a command that goes on."""
        with open(self.folder / log, "wb") as file:
            process = subprocess.Popen(
                self._words(line), cwd=self.folder, env=self._environment, stderr=file
            )
        self._running.append(process)

    def _words(self, line: str) -> Sequence[str]:
        self.typed.append(line)
        words = line.split()
        command = PARTITA if words[0] == "partita" else words[:1]
        return ("ip", "netns", "exec", self._space, *command, *words[1:])

    def log(self, name: str) -> str:
        """What a command that goes on has said so far."""
        return (self.folder / name).read_text()

    def end(self) -> None:
        """End what goes on."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait(20)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host, Namespaces]]:
    """Two hosts on one switch."""
    (tmp_path / "lab.toml").write_text(CLUSTER.format(nano="192.0.2.7", box="192.0.2.8"))
    with (
        open_namespaces(load_cluster(tmp_path / "lab.toml")) as net,
        contextlib.ExitStack() as stack,
    ):
        first, second = (Host(net.space(name), tmp_path / name) for name in ("nano", "box"))
        for host in (first, second):
            stack.callback(host.end)
        yield first, second, net


def wait_for(host: Host, log: str, words: str) -> None:
    """Return when a log says something."""
    deadline_s = time.monotonic() + 20
    while words not in host.log(log):
        assert time.monotonic() < deadline_s, host.log(log)
        time.sleep(0.05)


def test_at_most_five_commands_per_host(
    hosts: tuple[Host, Host, Namespaces],
) -> None:
    """Keys, two workers, a plan and a checked run; who has no file, or lost it, gets nothing."""
    nano, box, net = hosts
    addresses = {name: net.address(name) for name in ("nano", "box")}
    (nano.folder / "garage.toml").write_text(CLUSTER.format(**addresses))
    onnx.save(tiny_model(), nano.folder / "m.onnx")

    nano.type("partita keys init site --cluster garage.toml")
    nano.type(f"cp site/box.join {box.folder}")  # scp, where hosts have disks of their own
    nano.start("partita worker --join site/nano.join --store store", "nano.log")
    box.start("partita worker --join box.join --store store", "box.log")
    nano.type("partita plan m.onnx --cluster garage.toml --planner equal_rows -o plan.json")
    told = nano.type("partita run plan.json --join site/leader.join --requests 3 --check")
    assert "the same answer" in told
    assert len(nano.typed) <= 5
    assert len(box.typed) <= 5
    wait_for(box, "box.log", "leader 'leader-")

    looked = nano.type("partita doctor --cluster garage.toml --join site/front.join")
    assert looked.count("ready, version") == 2
    asked = nano.type("partita run plan.json --join site/front.join", code=2)
    assert "is a front's, 'front'; needed is a leader's" in asked
    (box.folder / "garage.toml").write_text(CLUSTER.format(**addresses))
    stranger = box.type("partita doctor --cluster garage.toml --insecure", code=4)
    assert "speaks TLS" in stranger
    nano.type("partita keys revoke box --site site")
    wait_for(nano, "nano.log", "joining anew")
    nano.type(f"cp site/front.join {box.folder}")
    gone = box.type("partita doctor --cluster garage.toml --join front.join", code=4)
    assert "no member: it is no member by join file 'front.join'" in gone
    wait_for(box, "box.log", "'nano': connected, but tells this worker nothing")
