"""A session over a bundle: what it is given, and what becomes of it while it is in use."""

from __future__ import annotations

import _thread
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from partita.errors import BundleError, InputError, RunError
from partita.graph import load_graph
from partita.loading import load_bundle
from partita.loading.cut.page_cache import forget, settle
from partita.loading.serve.read_ahead import ReadAhead
from partita.loading.serve.session import BundleSession
from partita.zoo import build_model
from tests.cost.fakes import conv_graph
from tests.loading.bundles import ask, split


def test_a_bundle_that_is_replaced_while_in_use_is_told(tmp_path: Path) -> None:
    """Its weights are those of another model then."""
    graph = conv_graph()
    folder = split(graph, tmp_path / "b", (3,))
    with load_bundle(folder) as session:
        session.run(None, ask(graph))
        other = load_graph(build_model("squeezenet", size=64))
        session._verifier = None
        split(other, folder, (len(other.layers),))
        with pytest.raises(BundleError, match="was replaced while it was in use; load it again"):
            session.wait()


def test_no_answer_of_two_bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is replaced while its children load is not answered with."""
    graph = conv_graph()
    folder = split(graph, tmp_path / "b", (1, 2, 3))
    gate, opened = threading.Event(), BundleSession._open

    def slow_open(session: BundleSession, child: int) -> Any:
        if child == 2:
            assert gate.wait(10)
        return opened(session, child)

    monkeypatch.setattr(BundleSession, "_open", slow_open)
    for ends in ((1, 2, 3), (3,)):  # child 2 is there then, or not
        gate.clear()
        with load_bundle(folder, loaders=1, verify=False) as session:
            split(graph, folder, ends)
            gate.set()
            for _ in range(2):
                with pytest.raises(BundleError, match="was replaced while it was in use"):
                    session.run(None, ask(graph))


def test_each_output_is_the_callers_own(tmp_path: Path) -> None:
    """Also one that is asked for twice; no names are all names."""
    graph = conv_graph()
    with load_bundle(split(graph, tmp_path / "b", (3,))) as session:
        (name,) = (spec.name for spec in session.get_outputs())
        one, other = session.run([name, name], ask(graph))
        assert not np.shares_memory(one, other)
        (found,) = session.run([], ask(graph))
        np.testing.assert_array_equal(found, one)
        for wrong in ([np.arange(3)], [None], ["nowhere"]):
            with pytest.raises(InputError, match="is unknown; allowed"):
                session.run(wrong, ask(graph))  # type: ignore[arg-type]


def test_waiting_verifies_also_without_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no thread is to be had, whoever waits does it."""
    graph = load_graph(build_model("squeezenet", size=64))
    folder = split(graph, tmp_path / "b", (len(graph.layers),))
    path = folder / "s" / "weights.bin"
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    with load_bundle(folder, read_ahead=False) as session:
        session.run(None, ask(graph))
        with pytest.raises(BundleError, match="altered"):
            session.wait()


def test_reading_ahead_without_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers wait for what they read themselves; no file stays open."""
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(4 << 20))
    settle([path])
    forget([path])

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    monkeypatch.setattr("partita.loading.serve.read_ahead._is_cached", lambda *_: False)
    before = os.listdir("/proc/self/fd")
    ReadAhead([(path, 4 << 20)]).close()
    assert os.listdir("/proc/self/fd") == before


def test_a_request_of_a_signals_handler(tmp_path: Path) -> None:
    """In the middle of a request it cannot be answered; the request itself goes on."""
    graph = conv_graph()
    with load_bundle(split(graph, tmp_path / "c", (3,))) as session:
        session.wait()
        engine, caught = session._runner.sessions[0], []

        class Interrupted:
            def run(self, names: list[str], feeds: dict[str, Any]) -> Any:
                signal.raise_signal(signal.SIGUSR1)
                return engine.run(names, feeds)

        def ask_again(*_: object) -> None:
            with pytest.raises(RunError, match="of this thread is under way") as one:
                session.run(None, ask(graph))
            caught.append(one)

        session._runner.sessions[0] = Interrupted()
        before = signal.signal(signal.SIGUSR1, ask_again)
        try:
            session.run(None, ask(graph))
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert caught
        session._runner.sessions[0] = engine
        session.run(None, ask(graph))


def test_each_refusal_is_an_error_of_its_own(tmp_path: Path) -> None:
    """One that is raised again keeps all that led to it, requests included."""
    with load_bundle(split(conv_graph(), tmp_path / "c", (3,))) as session:
        session._runner.fail(BundleError("it is altered", subject="w"))
        caught = []
        for _ in range(2):
            with pytest.raises(BundleError, match="it is altered") as one:
                session.run(None, ask(conv_graph()))
            caught.append(one.value)
        assert caught[0] is not caught[1]
        assert caught[1].subject == "w"


def test_an_output_that_is_an_input_is_the_callers_own(tmp_path: Path) -> None:
    """What the caller does to its array later does not change the answer."""
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [2]) for name in ("x", "y"))
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [x], [y, x])
    opset = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    array = np.array([1, -2], np.float32)
    with load_bundle(split(load_graph(model), tmp_path / "b", (1,))) as session:
        first, second = session.run(["y", "x"], {"x": array})
        array[:] = 9
    assert (first.tolist(), second.tolist()) == ([1, 0], [1, -2])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"threads": 0}, "threads is 0: allowed are 1 to 256"),
        ({"threads": "a"}, "threads is 'a'"),
        ({"loaders": -1}, "loaders is -1"),
        ({"loaders": 2.5}, "loaders is 2.5"),
        ({"threads": 10**6}, "threads is 1000000"),
    ],
)
def test_numbers_that_cannot_be(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    """Threads and loaders are whole numbers within reason."""
    folder = split(conv_graph(), tmp_path / "b", (3,))
    with pytest.raises(InputError, match=told):
        load_bundle(folder, **given)


def test_arrays_of_the_other_byte_order_and_no_arrays(tmp_path: Path) -> None:
    """Numbers are what counts; what is no array is refused."""
    graph = conv_graph()
    feeds = ask(graph)
    (name,) = feeds
    with load_bundle(split(graph, tmp_path / "b", (3,))) as session:
        (wanted,) = session.run(None, feeds)
        (found,) = session.run(None, {name: feeds[name].astype(">f4")})
        assert np.array_equal(found, wanted)
        for given, told in (
            (None, "Inputs are a NoneType: allowed are arrays by name"),
            ([feeds[name]], "Inputs are a list"),
            ({name: [[1], [2, 3]]}, "is no array"),
        ):
            with pytest.raises(InputError, match=told):
                session.run(None, given)
        for outputs in ("classifier", 5):
            with pytest.raises(InputError, match="allowed is a list of names"):
                session.run(outputs, feeds)


def test_one_child_is_there_with_the_session(tmp_path: Path) -> None:
    """Nothing loads beside it: whoever makes the session loads it."""
    graph = conv_graph()
    with load_bundle(split(graph, tmp_path / "b", (3,))) as session:
        assert session.is_loaded
        held = session._runner.sessions[0]
        session.run(None, ask(graph))
        session.wait()
        assert session._runner.sessions[0] is held
        (load,) = [mark for mark in session.marks if mark.what == "load"]
        assert load.end_s > load.start_s == 0


def test_what_is_in_memory_is_not_read_ahead(tmp_path: Path) -> None:
    """A thread that asks for what is there would hold up what loads."""
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(4 << 20))
    settle([path])
    assert ReadAhead([(path, 4 << 20)])._thread is None
    forget([path])
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.preadv(descriptor, [bytearray(1)], 4 << 19, os.RWF_NOWAIT)
    except OSError:  # it is on disk alone; some file systems keep it
        ahead = ReadAhead([(path, 4 << 20)])
        assert ahead._thread is not None
        ahead.close()
    finally:
        os.close(descriptor)
