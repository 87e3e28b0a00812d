"""The worker as a process: how it begins, refuses and ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.worker.tiny import random_inputs, tiny_chain

from partita.errors import ClusterError, RunError
from partita.fabric import Endpoint, ZenohEndpoint, ZenohOptions
from partita.lab.ports import free_addresses
from partita.leader import DeployOptions, deploy
from partita.worker import WorkerOptions
from partita.worker.serve import make_parts, read_options

WAIT_S = 15.0


def spawn(options: WorkerOptions) -> subprocess.Popen[bytes]:
    """Start a worker process that is told ``options``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "partita.worker"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(options) + b"\n")
    process.stdin.flush()
    return process


@pytest.fixture
def address() -> str:
    """A free address on loopback."""
    return free_addresses(1)[0]


@pytest.fixture
def leader(address: str) -> Iterator[Endpoint]:
    """A leader's endpoint that looks for a worker at the address."""
    endpoint = ZenohEndpoint(ZenohOptions("leader", "serve", connect=(address,)))
    yield endpoint
    endpoint.close()


@pytest.mark.slow
def test_a_worker_serves_and_ends_cleanly_on_sigterm(
    address: str, leader: Endpoint, tmp_path: Path
) -> None:
    """A worker answers until SIGTERM, then ends with code 0, without a word."""
    network = ZenohOptions("d0", "serve", listen=(address,))
    process = spawn(WorkerOptions(network, store=str(tmp_path), threads=1))
    tiny = tiny_chain(1, 1)
    with deploy(tiny, leader, DeployOptions(wait_s=WAIT_S)) as session:
        assert len(session.run(random_inputs(tiny.program, 2))) == 2
        assert session.infos["d0"].providers == ("CPUExecutionProvider",)
    process.send_signal(signal.SIGTERM)
    _, words = process.communicate(timeout=WAIT_S)
    assert (process.returncode, words) == (0, b"")


@pytest.mark.slow
def test_a_process_of_another_version_is_named(
    address: str, leader: Endpoint, tmp_path: Path
) -> None:
    """Leader and worker of different versions do not work together, and both are named."""
    network = ZenohOptions("d0", "serve", listen=(address,))
    process = spawn(WorkerOptions(network, store=str(tmp_path), version="0.0.9"))
    with pytest.raises(RunError, match=r"partita 0\.0\.9 \(protocol 2\), the leader "):
        deploy(tiny_chain(1, 1), leader, DeployOptions(wait_s=WAIT_S))
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0


@pytest.mark.slow
def test_a_worker_does_not_listen_to_everybody_without_credentials(tmp_path: Path) -> None:
    """An address beyond loopback without credentials ends with code 2 and one line."""
    network = ZenohOptions("d0", "serve", listen=("tcp/0.0.0.0:7447",))
    process = spawn(WorkerOptions(network, store=str(tmp_path)))
    _, words = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2
    assert len(words.splitlines()) == 1
    assert b"--insecure" in words


def test_options_that_are_malformed_are_refused() -> None:
    """A line that is no options is an error of its own, as is a slow-down below 1."""
    with pytest.raises(ClusterError, match="malformed"):
        read_options(b"{}")
    with pytest.raises(ClusterError, match="at least 1"):
        make_parts(WorkerOptions(ZenohOptions("d0"), slow_down=0.5))


def test_options_survive_the_pipe() -> None:
    """What the lab writes is what the worker reads."""
    options = WorkerOptions(ZenohOptions("d0", listen=("tcp/127.0.0.1:7447",)), slow_down=3.0)
    assert read_options(msgspec.json.encode(options)) == options
