"""What executes a bundle's children: who computes, and what a failure or Ctrl-C leaves."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partita.errors import RunError
from partita.loading import Division, load_bundle, write_bundle
from partita.loading.runner import Runner
from partita.loading.session import BundleSession
from tests.cost.fakes import conv_graph
from tests.loading.test_bundle import ask, run_whole

_MOST_S = 10


@pytest.fixture(name="folder", scope="module")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle of three children."""
    folder = tmp_path_factory.mktemp("runner") / "b"
    write_bundle(conv_graph(), [Division("s", (1, 2, 3))], folder)
    return folder


class Gate:
    """Holds up the loading of the last child until it is opened; notes who computes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()
        self.threads: dict[int, str] = {}
        self.failures: Iterator[Exception] = iter(())
        opened, compute = BundleSession._open, Runner._compute

        def slow_open(session: BundleSession, child: int, *, prepack: bool = False) -> Any:
            if child == 2:
                self.reached.set()
                assert self.opened.wait(_MOST_S)
            return opened(session, child, prepack=prepack)

        def note(runner: Runner, step: Any, arguments: Any) -> Any:
            self.threads[step.fragment] = threading.current_thread().name
            for failure in self.failures:
                raise failure
            return compute(runner, step, arguments)

        monkeypatch.setattr(BundleSession, "_open", slow_open)
        monkeypatch.setattr(Runner, "_compute", note)


@pytest.fixture(name="gate")
def make_gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Return a gate; it is opened in the end."""
    gate = Gate(monkeypatch)
    yield gate
    gate.opened.set()


def check(session: BundleSession) -> None:
    """A request is answered as by the whole model."""
    feeds = ask(conv_graph())
    (wanted,) = run_whole(conv_graph(), feeds)
    (found,) = session.run(None, feeds)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_the_thread_that_loads_computes(gate: Gate, folder: Path) -> None:
    """It does so where a request waits for the child; later the caller computes."""
    with load_bundle(folder) as session:
        timer = threading.Timer(0.1, gate.opened.set)
        timer.start()
        check(session)
        assert gate.threads[2] == "load-2"
        check(session)
        assert set(gate.threads.values()) == {threading.current_thread().name}
        timer.join()


@pytest.mark.parametrize("is_open", [False, True])
def test_a_request_that_fails_leaves_nothing_behind(
    gate: Gate, folder: Path, is_open: bool
) -> None:
    """Whoever computes, the caller gets the error, and the next request is answered."""
    with load_bundle(folder) as session:
        if is_open:
            gate.opened.set()
            session.wait()
        for failure in (RunError("it failed"), ZeroDivisionError("so did this")):
            gate.failures = iter([failure])
            with pytest.raises(type(failure), match=str(failure)):
                session.run(None, ask(conv_graph()))
        gate.opened.set()
        check(session)
        check(session)


_INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
from partita.loading import load_bundle
from partita.loading.session import BundleSession

gate, opened = threading.Event(), BundleSession._open

def slow_open(session, child, **options):
    if child == 2:
        assert gate.wait(10)
    return opened(session, child, **options)

BundleSession._open = slow_open
feeds = dict(np.load(sys.argv[2]))
with load_bundle(sys.argv[1]) as session:
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        session.run(None, feeds)
    except KeyboardInterrupt:
        print("interrupted")
    threading.Timer(0.1, gate.set).start()
    for _ in range(2):
        (answer,) = session.run(None, feeds)
np.save(sys.argv[3], answer)
"""


def test_ctrl_c_while_a_request_waits(folder: Path, tmp_path: Path) -> None:
    """The next request is answered, and what came of the broken one is dropped."""
    feeds = ask(conv_graph())
    (wanted,) = run_whole(conv_graph(), feeds)
    np.savez(tmp_path / "feeds.npz", allow_pickle=False, **feeds)
    files = [str(folder), str(tmp_path / "feeds.npz"), str(tmp_path / "answer.npy")]
    command = [sys.executable, "-c", _INTERRUPTED, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
    found = np.load(tmp_path / "answer.npy")
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_closing_ends_a_request_that_waits(gate: Gate, folder: Path) -> None:
    """It gets an error that says so."""
    session = load_bundle(folder)
    assert gate.reached.wait(_MOST_S)
    threading.Timer(0.1, session.close).start()
    threading.Timer(0.2, gate.opened.set).start()
    with pytest.raises(RunError, match="closed"):
        session.run(None, ask(conv_graph()))


def test_requests_from_many_threads(folder: Path) -> None:
    """They are answered one after the other, while children load."""
    errors: list[BaseException] = []

    def ask_often(session: BundleSession) -> None:
        try:
            for _ in range(5):
                check(session)
        except BaseException as error:
            errors.append(error)

    with load_bundle(folder, loaders=2) as session:
        threads = [threading.Thread(target=ask_often, args=(session,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors


def test_a_bundle_needs_few_modules() -> None:
    """What answers first does not wait for what workers and planners need."""
    code = (
        "import sys, partita.loading.session; print(*(m for m in sys.modules if 'partita.' in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {name.split(".")[1] for name in done.stdout.split()}
    modules = set(done.stdout.split())
    assert packages <= {"errors", "execution", "engine", "files", "lazy", "loading"} | {
        "program",
        "regions",
    }
    assert not modules & {"partita.execution.adapt", "partita.execution.report"}
    assert not modules & {"partita.engine.ort", "partita.loading.split"}
