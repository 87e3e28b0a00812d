"""The worker as a process: how it begins, refuses and ends."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from tests.fabric.certificates import needs_openssl, sign
from tests.fabric.sites import new_site, options_of
from tests.worker.tiny import random_inputs, tiny_chain

from partita.credentials import revoke_member
from partita.engine import OrtEngine, SlowedEngine
from partita.errors import ClusterError, RunError
from partita.execution import Link
from partita.fabric import (
    Caller,
    Endpoint,
    MemoryFabric,
    ShapedEndpoint,
    ZenohEndpoint,
    ZenohOptions,
)
from partita.lab.ports import free_addresses
from partita.leader import DeployOptions, deploy
from partita.worker import Worker, WorkerOptions, rejoin, run_worker, serve
from partita.worker.messages import PROTOCOL_VERSION, OfEpoch, encode_message
from partita.worker.serve import main, make_parts, read_options

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


_STUCK = """
import sys, time
from partita.fabric import MemoryFabric, ZenohOptions
from partita.worker import WorkerOptions, run_worker, serve

def hang(*_):
    print("stuck", flush=True)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

class Endpoint:
    def __init__(self, network):
        self._inner = MemoryFabric().endpoint(network.name)
        self.name = network.name
        if sys.argv[2] == "joining":
            hang()
        self.close = hang

    def __getattr__(self, name):
        return getattr(self._inner, name)

serve._END_S = 0.3
serve.ZenohEndpoint = Endpoint
options = WorkerOptions(ZenohOptions("d0"), store=sys.argv[1])
run_worker(options, on_ready=lambda worker: print("ready", flush=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["joining", "leaving"])
def test_a_worker_that_hangs_in_its_network_still_heeds_sigterm(where: str, tmp_path: Path) -> None:
    """A dead network holds up the main thread: the process ends all the same, and says so."""
    process = subprocess.Popen(
        [sys.executable, "-c", _STUCK, str(tmp_path), where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == (b"ready\n" if where == "leaving" else b"stuck\n")
        process.send_signal(signal.SIGTERM)
        _, words = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1
    assert b"without leaving the network" in words


@pytest.mark.slow
def test_a_process_of_another_version_is_named(
    address: str, leader: Endpoint, tmp_path: Path
) -> None:
    """Leader and worker of different protocols do not work together, and both are named."""
    network = ZenohOptions("d0", "serve", listen=(address,))
    options = WorkerOptions(network, store=str(tmp_path), version="0.0.9", protocol=1)
    process = spawn(options)
    words = rf"partita 0\.0\.9 \(protocol 1\), the leader .* \(protocol {PROTOCOL_VERSION}\)"
    with pytest.raises(RunError, match=words):
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


def test_a_worker_gets_the_limits_of_its_options(tmp_path: Path) -> None:
    """Plans and threads are bounded as asked."""
    options = WorkerOptions(ZenohOptions("d0"), store=str(tmp_path), max_plans=3, max_lanes=7)
    parts = make_parts(options)
    assert (parts.max_plans, parts.max_lanes) == (3, 7)


def test_options_survive_the_pipe() -> None:
    """What the lab writes is what the worker reads."""
    options = WorkerOptions(ZenohOptions("d0", listen=("tcp/127.0.0.1:7447",)), slow_down=3.0)
    assert read_options(msgspec.json.encode(options)) == options


@pytest.fixture
def fabric(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryFabric]:
    """Workers of this process join a fabric in memory; its signals are as before afterwards."""
    fabric = MemoryFabric()
    monkeypatch.setattr(serve, "ZenohEndpoint", lambda network: fabric.endpoint(network.name))
    monkeypatch.setattr(serve, "tune_memory", lambda: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield fabric
    for number, handler in before.items():
        signal.signal(number, handler)


def call_stop(worker: Worker) -> None:
    """End a worker as a leader does."""
    worker._answer(Caller("leader"), "stop", encode_message(OfEpoch(0)))


@pytest.mark.parametrize(
    "end",
    [
        call_stop,
        lambda worker: os.kill(os.getpid(), signal.SIGTERM),
        lambda worker: os.kill(os.getpid(), signal.SIGINT),
    ],
    ids=["leader", "SIGTERM", "SIGINT"],
)
def test_a_worker_ends_when_told(
    fabric: MemoryFabric, tmp_path: Path, end: Callable[[Worker], None]
) -> None:
    """It is visible when it says so, and has left the network when it returns."""
    seen: list[set[str]] = []

    def on_ready(worker: Worker) -> None:
        seen.append(set(fabric.members))
        end(worker)

    run_worker(WorkerOptions(ZenohOptions("d0"), store=str(tmp_path)), on_ready=on_ready)
    assert seen == [{"d0"}]
    assert fabric.members == {}


def test_a_worker_tells_its_beginning_and_its_end(
    fabric: MemoryFabric, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A line each, for whoever wants to see them."""
    options = WorkerOptions(ZenohOptions("d0", listen=("tcp/127.0.0.1:7447",)), store=str(tmp_path))
    with caplog.at_level("INFO", "partita"):
        run_worker(options, on_ready=lambda worker: os.kill(os.getpid(), signal.SIGTERM))
    assert caplog.messages == [
        "worker 'd0' listens on tcp/127.0.0.1:7447",
        "SIGTERM: the worker ends",
    ]


@needs_openssl
def test_a_worker_says_that_its_certificate_is_for_another_host(
    fabric: MemoryFabric, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It serves all the same: others may reach it at another address."""
    tls = sign(tmp_path, "ours", "d0", "IP:192.0.2.7")
    network = ZenohOptions("d0", listen=("tls/127.0.0.1:7447",), tls=tls)
    options = WorkerOptions(network, store=str(tmp_path / "store"))
    with caplog.at_level("WARNING", "partita"):
        run_worker(options, on_ready=lambda worker: os.kill(os.getpid(), signal.SIGTERM))
    (told,) = caplog.messages
    assert "no name for the host of tls/127.0.0.1:7447" in told


def test_a_worker_joins_anew_as_its_file_says(
    fabric: MemoryFabric,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who is revoked is out while the worker stays; it leaves the network for a moment."""
    monkeypatch.setattr(rejoin, "LOOK_S", 0.01)
    site = new_site(tmp_path / "garage")
    path = site.join_file("nano")
    networks: list[ZenohOptions] = []
    opened = serve.ZenohEndpoint
    monkeypatch.setattr(
        serve, "ZenohEndpoint", lambda network: (networks.append(network), opened(network))[1]
    )

    def on_ready(worker: Worker) -> None:
        assert set(fabric.members) == {"nano"}
        if len(networks) == 1:
            revoke_member(site, "box")
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    options = WorkerOptions(options_of(site, "nano"), store=str(tmp_path / "s"), join=str(path))
    with caplog.at_level("INFO", "partita"):
        run_worker(options, on_ready=on_ready)
    names = [[member.name for member in network.members] for network in networks]
    assert names == [["nano", "box", "leader", "front"], ["nano", "leader", "front"]]
    assert f"join file '{path}' has changed: joining anew" in caplog.messages
    assert fabric.members == {}


def test_a_worker_ends_with_its_parent(fabric: MemoryFabric, tmp_path: Path) -> None:
    """What the parent still writes is read over; the pipe's end is what counts."""
    reader, writer = os.pipe()

    def on_ready(worker: Worker) -> None:
        os.write(writer, b"words")
        os.close(writer)

    options = WorkerOptions(ZenohOptions("d0"), store=str(tmp_path))
    run_worker(options, parent=reader, on_ready=on_ready)
    assert fabric.members == {}
    os.close(reader)


def test_a_worker_that_fails_to_start_leaves_the_network(
    fabric: MemoryFabric, tmp_path: Path
) -> None:
    """An error on the way to readiness comes out, and the name is free again."""

    def on_ready(worker: Worker) -> None:
        raise RuntimeError("no display")

    with pytest.raises(RuntimeError, match="no display"):
        run_worker(WorkerOptions(ZenohOptions("d0"), store=str(tmp_path)), on_ready=on_ready)
    assert fabric.members == {}


def test_links_of_the_options_shape_what_the_worker_sends(
    fabric: MemoryFabric, tmp_path: Path
) -> None:
    """Without links the endpoint is the network's own; with them it is wrapped."""
    kinds: list[bool] = []

    def on_ready(worker: Worker) -> None:
        kinds.append(isinstance(worker.endpoint, ShapedEndpoint))
        call_stop(worker)

    for links in (None, {"d1": Link("leader", "d1", 1e6)}):
        options = WorkerOptions(ZenohOptions("d0"), store=str(tmp_path), links=links)
        run_worker(options, on_ready=on_ready)
    assert kinds == [False, True]


def test_a_slow_down_is_shared_by_engine_and_codecs(tmp_path: Path) -> None:
    """One object counts all overruns; a real device has no wrapper at all."""
    options = WorkerOptions(ZenohOptions("d0"), store=str(tmp_path), slow_down=3.0)
    parts = make_parts(options)
    assert isinstance(parts.engine, SlowedEngine)
    assert parts.engine.slow_down is parts.slow_down
    real = make_parts(WorkerOptions(ZenohOptions("d0"), store=str(tmp_path), threads=3))
    assert isinstance(real.engine, OrtEngine)
    assert real.threads == 3


def test_without_a_limit_most_of_the_memory_may_be_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four fifths by default; a number of the user's own counts as it is."""
    memory = SimpleNamespace(total=1000)
    monkeypatch.setattr(serve.psutil, "virtual_memory", lambda: memory)
    options = WorkerOptions(ZenohOptions("d0"), store=str(tmp_path))
    assert make_parts(options).memory_limit_bytes == 800
    limited = WorkerOptions(ZenohOptions("d0"), store=str(tmp_path), memory_limit_bytes=999)
    assert make_parts(limited).memory_limit_bytes == 999


def test_a_store_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """A file where the folder should be is found before the worker joins anything."""
    (tmp_path / "file").write_bytes(b"")
    options = WorkerOptions(ZenohOptions("d0"), store=str(tmp_path / "file"))
    with pytest.raises(ClusterError, match=r"--store '.*file' cannot be used: File exists"):
        make_parts(options)


def test_a_lab_s_worker_reads_its_options_and_fails_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Malformed options end the process with the code of a cluster error, without a traceback."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"{}\n")))
    assert main() == ClusterError("").exit_code
    assert capsys.readouterr().err.startswith("Worker options are malformed: ")


_THREADS_WITH_HEAPS = """
import threading
from partita.memory import private_bytes, release
from partita.worker.serve import tune_memory

def hold_for_a_while():
    pieces = [bytes(200_000) for _ in range(100)]
    del pieces[:]

tune_memory()
before = private_bytes()
together = threading.Barrier(4)

def work():
    together.wait()
    hold_for_a_while()
    together.wait()

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
release()
print(private_bytes() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc only")
def test_what_threads_have_freed_is_given_back() -> None:
    """A plan is not charged for what profiling, or the plan before it, took and freed."""
    left = subprocess.check_output([sys.executable, "-c", _THREADS_WITH_HEAPS], text=True)
    assert int(left) < 10_000_000
