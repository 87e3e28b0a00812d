"""What executes a bundle's children: who computes, and what a failure or Ctrl-C leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from partita.errors import BundleError, RunError
from partita.execution import Machine
from partita.graph import load_graph
from partita.loading import Division, balanced_ends, load_bundle, load_frozen, write_bundle
from partita.loading.serve.runner import Runner
from partita.loading.serve.session import BundleSession
from partita.zoo import build_model
from tests.cost.fakes import conv_graph
from tests.loading.bundles import ask, run_whole

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

        def slow_open(session: BundleSession, child: int) -> Any:
            if child == 2:
                self.reached.set()
                assert self.opened.wait(_MOST_S)
            return opened(session, child)

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
from partita.loading.serve.session import BundleSession

gate, opened = threading.Event(), BundleSession._open

def slow_open(session, child, **options):
    if child == 2:
        assert gate.wait(10)
    return opened(session, child, **options)

BundleSession._open = slow_open
feeds = dict(np.load(sys.argv[2]))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
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


_FORKED = """
import os, sys, threading
import numpy as np
from partita.loading import load_bundle

feeds = dict(np.load(sys.argv[2]))
with load_bundle(sys.argv[1], threads=1) as session:
    session.wait()
    engine, reached, opened = session._runner.sessions[0], threading.Event(), threading.Event()

    class Slow:
        def run(self, names, feeds):
            reached.set()
            opened.wait(20)
            return engine.run(names, feeds)

    session._runner.sessions[0] = Slow()
    thread = threading.Thread(target=session.run, args=(None, feeds))
    thread.start()
    reached.wait(10)
    child = os.fork()
    if not child:
        session._runner.sessions[0] = engine
        np.save(sys.argv[3], session.run(None, feeds)[0])
        session.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    opened.set()
    thread.join()
"""


def run_script(script: str, told: str, folder: Path, home: Path) -> None:
    """It says this, and writes the whole model's answer."""
    feeds = ask(conv_graph())
    (wanted,) = run_whole(conv_graph(), feeds)
    np.savez(home / "feeds.npz", allow_pickle=False, **feeds)
    files = [str(folder), str(home / "feeds.npz"), str(home / "answer.npy")]
    command = [sys.executable, "-c", script, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, told), done.stderr
    found = np.load(home / "answer.npy")
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_a_fork_while_a_thread_asks(folder: Path, tmp_path: Path) -> None:
    """The copy answers: its locks are not held by a thread that it has not."""
    run_script(_FORKED, "", folder, tmp_path)


def test_what_cannot_begin_leaves_no_thread(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that makes a session when the process ends would abort it."""
    start, started = threading.Thread.start, []

    def limited(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(BundleError, match="can't start new thread"):
        load_bundle(folder, loaders=3)
    assert started
    assert not started[0].is_alive()


def test_ctrl_c_while_a_request_waits(folder: Path, tmp_path: Path) -> None:
    """The next request is answered, and what came of the broken one is dropped."""
    run_script(_INTERRUPTED, "interrupted\n", folder, tmp_path)


def test_closing_ends_a_request_that_waits(gate: Gate, folder: Path) -> None:
    """It gets an error that says so."""
    session = load_bundle(folder)
    assert gate.reached.wait(_MOST_S)
    threading.Timer(0.1, session.close).start()
    threading.Timer(0.2, gate.opened.set).start()
    with pytest.raises(RunError, match="closed"):
        session.run(None, ask(conv_graph()))


def test_closing_while_the_caller_computes(
    gate: Gate, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request ends with the same error."""
    gate.opened.set()
    with load_bundle(folder) as session:
        session.wait()
        compute = Runner._compute

        def close_first(runner: Runner, step: Any, arguments: Any) -> Any:
            session.close()
            return compute(runner, step, arguments)

        monkeypatch.setattr(Runner, "_compute", close_first)
        with pytest.raises(RunError, match="closed"):
            session.run(None, ask(conv_graph()))


def test_an_interrupt_while_a_request_begins_anew(
    gate: Gate, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often that is, the request after it is answered."""
    gate.opened.set()
    begin, interrupts = Machine.begin, iter([True, True])

    def interrupted(machine: Machine) -> Any:
        for _ in interrupts:
            raise KeyboardInterrupt
        return begin(machine)

    with load_bundle(folder) as session:
        gate.failures = iter([RunError("it failed")])
        monkeypatch.setattr(Machine, "begin", interrupted)
        for error in (RunError, KeyboardInterrupt, KeyboardInterrupt):
            with pytest.raises(error):
                session.run(None, ask(conv_graph()))
        check(session)


@pytest.mark.parametrize("child", [0, 1])
def test_without_threads_the_error_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, child: int
) -> None:
    """No request waits for a child that nobody loads, and closing works."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == f"load-{child}":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with (
        pytest.raises(BundleError, match="can't start new thread"),
        load_bundle(folder) as session,
    ):
        session.run(None, ask(conv_graph()))


def test_a_session_of_another_process(
    gate: Gate, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy by fork has no threads that load."""
    with load_bundle(folder) as session:
        number = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: number + 1)
        with pytest.raises(RunError, match="forked: load it here"):
            session.run(None, ask(conv_graph()))
        gate.opened.set()
        session._runner.await_loads()
        check(session)


def test_what_no_output_needs_is_computed_in_the_background(tmp_path: Path) -> None:
    """A request is over when all its steps are, also those after the answer."""
    rng = np.random.default_rng(0)
    helper = onnx.helper
    nodes = [helper.make_node("Relu", ["x"], ["a"])]
    nodes += [
        helper.make_node("MatMul", ["a" if k == 0 else f"m{k}", "w"], [f"m{k + 1}"])
        for k in range(10)
    ]
    nodes.append(helper.make_node("Neg", ["a"], ["z"]))
    weight = onnx.numpy_helper.from_array(rng.standard_normal((64, 64), np.float32), "w")
    values = [helper.make_tensor_value_info(n, 1, [1, 64]) for n in ("x", "z", "m10")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    write_bundle(load_graph(model), [Division("s", (1, 11, 12))], tmp_path / "b")
    feeds = {"x": rng.standard_normal((1, 64), np.float32)}
    for _ in range(10):
        with load_frozen(tmp_path / "b") as session:
            for _ in range(4):
                answers = session.run(None, feeds)
            assert any(np.allclose(one, np.maximum(feeds["x"], 0)) for one in answers)


_ENDS = """
import sys, time
import numpy as np
from partita.loading import load_bundle

session = load_bundle(sys.argv[1])
if sys.argv[2] == "run":
    feeds = {one.name: np.zeros(one.shape, one.dtype) for one in session.get_inputs()}
    session.run(None, feeds)
    time.sleep(0.01)
if sys.argv[2] == "error":
    raise SystemExit(7)
"""


@pytest.mark.parametrize(("how", "code"), [("load", 0), ("run", 0), ("error", 7)])
def test_a_process_may_end_while_children_load(tmp_path: Path, how: str, code: int) -> None:
    """The engine aborts a process that ends while it makes a session."""
    graph = load_graph(build_model("mobilenet_v2", size=64))
    write_bundle(graph, [Division("s", balanced_ends(graph, 4))], tmp_path / "b")
    for _ in range(4):
        command = [sys.executable, "-c", _ENDS, str(tmp_path / "b"), how]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (code, "")


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
    code = "import sys, partita.loading.serve.session as _; "
    code += "print(*(m for m in sys.modules if 'partita.' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {name.split(".")[1] for name in done.stdout.split()}
    modules = set(done.stdout.split())
    assert packages <= {"errors", "execution", "engine", "files", "lazy", "loading", "version"} | {
        "memory",
        "naming",
        "program",
        "regions",
    }
    assert not modules & {"partita.execution.adapt", "partita.execution.report"}
    assert not modules & {"partita.engine.ort", "partita.loading.write.write_bundle"}
