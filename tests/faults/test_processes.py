"""Worker processes that die, freeze, or lose their leader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.worker.tiny import expected_chain, random_inputs, tiny_chain

from partita.cluster import Cluster, Device
from partita.errors import RunError
from partita.lab import Lab, LabOptions, start_lab
from partita.leader import deploy, measure_link

pytestmark = pytest.mark.slow

_WITHIN_S = 3.0
_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store for all labs of this file."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def lab(store: Path) -> Iterator[Lab]:
    """Three worker processes, emulated slow, so that a run is long enough to be hit."""
    cluster = Cluster.of([Device("d0"), Device("d1"), Device("d2")])
    with start_lab(cluster, LabOptions(store=store)) as running:
        yield running


@pytest.mark.parametrize("strike", [Lab.kill, Lab.freeze], ids=["kill", "freeze"])
def test_a_run_ends_in_time_when_a_worker_is_struck(
    lab: Lab, strike: Callable[[Lab, str], None]
) -> None:
    """A killed or frozen worker ends the run within 3 s, with device, step and request named."""
    tiny = tiny_chain()
    with deploy(tiny, lab.endpoint) as session, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(session.run, random_inputs(tiny.program, 5000))
        time.sleep(0.5)
        struck_s = time.monotonic()
        strike(lab, "d1")
        with pytest.raises(RunError) as caught:
            answer.result(20)
        took_s = time.monotonic() - struck_s
    assert took_s < _WITHIN_S
    assert caught.value.device == "d1"
    assert caught.value.step == "make t1"
    assert caught.value.request is not None
    assert caught.value.request > 0


@pytest.mark.parametrize("strike", [Lab.kill, Lab.freeze], ids=["kill", "freeze"])
def test_the_rest_finishes_a_run(lab: Lab, strike: Callable[[Lab, str], None]) -> None:
    """With a replanner, a run that loses a worker answers every request, rightly and in order."""
    tiny = tiny_chain(3, 3, in_flight=2, credit=2)
    rest = tiny_chain(3, 2, in_flight=2, credit=2)
    inputs = random_inputs(tiny.program, 300)
    outputs = []
    with deploy(tiny, lab.endpoint, replan=lambda device: rest) as session:
        for number, got in enumerate(session.iterate(inputs)):
            outputs.append(got["t2"])
            if number == 100:
                strike(lab, "d2")
        assert len(session.report().latencies_s) == len(inputs)
    for given, got in zip(inputs, outputs, strict=True):
        np.testing.assert_array_equal(got, expected_chain(tiny.program, given["input"]))


@pytest.mark.parametrize("method", ["have", "prepare"])
def test_the_rest_runs_what_was_not_deployed_yet(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """A worker that is killed while its part is sent or loaded is done without within 3 s."""
    tiny, rest = tiny_chain(3, 3), tiny_chain(3, 2)
    call, struck_s = lab.endpoint.call, list[float]()

    def strike(target: str, asked: str, body: bytes, timeout_s: float) -> bytes:
        if (target, asked) == ("d2", method):
            struck_s.append(time.monotonic())
            lab.kill("d2")
        return call(target, asked, body, timeout_s)

    monkeypatch.setattr(lab.endpoint, "call", strike)
    with deploy(tiny, lab.endpoint, replan=lambda lost: rest) as session:
        assert time.monotonic() - struck_s[0] < _WITHIN_S
        (given,) = random_inputs(tiny.program, 1)
        (got,) = session.run([given])
        np.testing.assert_array_equal(got["t2"], expected_chain(tiny.program, given["input"]))
        assert session.lost.devices == ("d2",)


@pytest.mark.parametrize("victim", ["d1", "d0"], ids=["receiver", "sender"])
def test_timing_messages_ends_when_a_worker_is_killed(lab: Lab, victim: str) -> None:
    """Neither a message that nobody takes nor one that nobody sends is waited for."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(measure_link, lab.endpoint, "d0", "d1", (0,), repeats=500)
        time.sleep(0.3)
        struck_s = time.monotonic()
        lab.kill(victim)
        with pytest.raises(RunError, match=f"'{victim}' was lost"):
            answer.result(20)
        assert time.monotonic() - struck_s < _WITHIN_S
        with pytest.raises(RunError, match=f"'{victim}'"):
            measure_link(lab.endpoint, "d0", "d1", (0,))
        # The news may not be everywhere yet: then it is waited for, for ten seconds at most.
        assert time.monotonic() - struck_s < 5 * _WITHIN_S


def test_no_worker_outlives_a_lab(store: Path) -> None:
    """After a lab ends in an error, none of its processes is left, frozen ones included."""
    pids: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        _interrupt_a_lab(store, pids)
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)


def _interrupt_a_lab(store: Path, pids: list[int]) -> None:
    cluster = Cluster.of([Device("d0"), Device("d1")])
    with start_lab(cluster, LabOptions(store=store)) as running:
        pids += [process.pid for process in running.processes.values()]
        running.freeze("d1")
        raise KeyboardInterrupt


_LEADER = """
import sys, time
from pathlib import Path
from partita.cluster import Cluster, Device
from partita.lab import LabOptions, start_lab
cluster = Cluster.of([Device("d0"), Device("d1")])
with start_lab(cluster, LabOptions(store=Path(sys.argv[1]))) as lab:
    print(*[process.pid for process in lab.processes.values()], flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["crash", "terminate"])
def test_workers_end_with_their_leader(store: Path, number: signal.Signals) -> None:
    """When the process that started a lab is killed or told to end, its workers end too."""
    leader = subprocess.Popen(
        [sys.executable, "-c", _LEADER, str(store)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT / "src")},
    )
    try:
        assert leader.stdout is not None
        pids = [int(word) for word in leader.stdout.readline().split()]
        leader.stdout.close()
        assert len(pids) == 2
        leader.send_signal(number)
    finally:
        if number is signal.SIGKILL:
            leader.kill()
        leader.wait(15)
    deadline_s = time.monotonic() + 8
    while any(_is_running(pid) for pid in pids) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not any(_is_running(pid) for pid in pids)


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
