"""Bundles answer as the whole model does, and refuse what was damaged."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnxruntime as ort
import pytest

from partita.errors import BundleError, InputError, RunError
from partita.graph import Graph, load_graph
from partita.loading import Division, balanced_ends, load_bundle, write_bundle
from partita.zoo import build_model
from tests.cost.fakes import conv_graph, skip_graph
from tests.loading.bundles import Change, ask, change_manifest, run_whole, split


@pytest.fixture(scope="module")
def network() -> Graph:
    """Return a network with skips, so that several tensors cross some cuts."""
    return load_graph(build_model("mobilenet_v2", size=32), name="mobilenet_v2")


@pytest.mark.parametrize("tuned", [True, False])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_children_answer_as_the_whole(
    network: Graph, tmp_path: Path, tuned: bool, count: int
) -> None:
    """However many children, tuned or portable, with few loaders or many: one answer."""
    feeds = ask(network)
    (wanted,) = run_whole(network, feeds)
    folder = split(network, tmp_path / "b", balanced_ends(network, count), tuned=tuned)
    for loaders in (1, 4):
        with load_bundle(folder, loaders=loaders) as session:
            for _ in range(2):
                (found,) = session.run(None, feeds)
                assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
            session.wait()
            assert session.is_loaded
            done = [(mark.what, mark.child) for mark in session.marks]
            assert sorted(done) == sorted((w, c) for w in ("load", "compute") for c in range(count))


def test_every_cut_of_a_network_with_skips(tmp_path: Path) -> None:
    """A cut that several tensors cross is as good as any other."""
    graph = skip_graph()
    feeds = ask(graph)
    (wanted,) = run_whole(graph, feeds)
    for end in range(1, len(graph.layers)):
        with load_bundle(split(graph, tmp_path / "b", (end, len(graph.layers)))) as session:
            (found,) = session.run([graph.outputs[0]], feeds)
        assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_inputs_that_are_read_in_part(tmp_path: Path) -> None:
    """A strided convolution that never reads the last row gets what its child asks for."""
    graph = load_graph(build_model("squeezenet", size=64))
    feeds = ask(graph)
    (wanted,) = run_whole(graph, feeds)
    with load_bundle(split(graph, tmp_path / "b", balanced_ends(graph, 2))) as session:
        (found,) = session.run(None, feeds)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_a_child_computes_while_a_later_one_loads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first child has answered before the last one may be loaded."""
    import threading

    from partita.loading.serve.runner import Runner
    from partita.loading.serve.session import BundleSession

    graph = conv_graph()
    folder = split(graph, tmp_path / "b", (1, 2, 3))
    computed = threading.Event()
    opened, compute = BundleSession._open, Runner._compute

    def slow_open(session: BundleSession, child: int) -> Any:
        if child == 2:
            assert computed.wait(10)
        return opened(session, child)

    def tell(runner: Runner, step: Any, arguments: Any) -> Any:
        made = compute(runner, step, arguments)
        computed.set()
        return made

    monkeypatch.setattr(BundleSession, "_open", slow_open)
    monkeypatch.setattr(Runner, "_compute", tell)
    with load_bundle(folder) as session:
        session.run(None, ask(graph))


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ((), "none"),
        ((1, 2), "the last of them 3"),
        ((2, 2, 3), "increasing numbers from 1 to 3"),
        ((0, 3), "increasing numbers from 1 to 3"),
    ],
)
def test_impossible_divisions_are_refused(
    tmp_path: Path, ends: tuple[int, ...], message: str
) -> None:
    """Ends that are no division of the layers say what is allowed."""
    with pytest.raises(BundleError, match=message):
        split(conv_graph(), tmp_path / "b", ends)
    assert list(tmp_path.iterdir()) == []


def test_more_children_than_layers_are_refused() -> None:
    """A child has at least one layer."""
    with pytest.raises(BundleError, match="4 children: the model has 3 layers; allowed: 1 to 3"):
        balanced_ends(conv_graph(), 4)


def test_trainable_layers_lie_in_the_last_child(tmp_path: Path) -> None:
    """Layers that may be trained are in one child, the last one, which says so."""
    graph = conv_graph()
    with pytest.raises(BundleError, match=r"'c1' is number 2 of 3.*must hold all"):
        write_bundle(graph, [Division("s", (2, 3))], tmp_path / "b", trainable=["c1", "c2"])
    with pytest.raises(BundleError, match="'moon' is unknown"):
        write_bundle(graph, [Division("s", (2, 3))], tmp_path / "b", trainable=["moon"])
    manifest = write_bundle(graph, [Division("s", (2, 3))], tmp_path / "b", trainable=["c2"])
    assert [child.trainable for child in manifest.variants[0].children] == [False, True]


def test_damaged_bundles_are_refused(tmp_path: Path) -> None:
    """A missing or altered child, missing, short or altered weights, and a foreign manifest."""
    graph = conv_graph()
    feeds = ask(graph)

    def fresh() -> Path:
        return split(graph, tmp_path / "b", (1, 3))

    def change(path: Path, old: bytes, new: bytes) -> None:
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new))

    folder = fresh()
    (folder / "s" / "child-1.onnx").unlink()
    with pytest.raises(BundleError, match=r"child-1\.onnx' is missing"):
        load_bundle(folder)
    folder = fresh()
    data = (folder / "s" / "child-0.onnx").read_bytes()
    (folder / "s" / "child-0.onnx").write_bytes(data + b"\0")
    with pytest.raises(BundleError, match=r"child-0\.onnx' altered"):
        load_bundle(folder)
    folder = fresh()
    change(folder / "manifest.json", b"onnxruntime ", b"onnxruntime 0.")
    with pytest.raises(BundleError, match="was made for onnxruntime 0"):
        load_bundle(folder)
    folder = fresh()
    change(folder / "manifest.json", b'"schema": 1', b'"schema": 9')
    with pytest.raises(BundleError, match="'schema': got 9, this version of Partita reads 1"):
        load_bundle(folder)
    folder = fresh()
    (folder / "manifest.json").write_text("{")
    with pytest.raises(BundleError, match="is no manifest"):
        load_bundle(folder)
    with pytest.raises(BundleError, match="has no readable manifest"):
        load_bundle(tmp_path / "nothing")
    with pytest.raises(BundleError, match="has no variant 'x'; it has: s"):
        load_bundle(fresh(), variant="x")
    with load_bundle(fresh()) as session, pytest.raises(InputError, match="'t0'"):
        session.run(None, {"x": feeds["t0"]})
    with pytest.raises(RunError, match="closed"):
        session.run(None, feeds)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda variant: variant.update(loaders=0), "`int` >= 1"),
        (lambda variant: variant.update(threads=-1), "`int` >= 1"),
        (lambda variant: variant.update(threads=2**40), "`int` <= 256"),
        (lambda variant: variant.update(name="../s"), "no name of a file"),
        (lambda variant: variant.update(name=".."), "no name of a file"),
        (lambda variant: variant["children"][0].update(file="/etc/passwd"), "no name of a file"),
        (lambda variant: variant["children"][0].update(weights="../w"), "no name of a file"),
        (lambda variant: variant["children"][0].update(file="a\0b"), "no name of a file"),
        (
            lambda variant: variant["children"][0].update(
                plain={"file": "p", "hash": "", "weights": "/etc/passwd", "weights_hash": ""}
            ),
            "'/etc/passwd' is no name of a file",
        ),
        (lambda variant: variant["children"][0].update(start=-4), "`int` >= 0"),
        (lambda variant: variant["children"].pop(), "it has no children"),
        (lambda variant: variant["program"]["devices"][0]["steps"].pop(1), "was altered"),
        (lambda variant: variant["program"]["devices"].clear(), "for 0 devices"),
        (lambda variant: variant["program"]["inputs"][0].update(name="z"), "was altered"),
        (lambda variant: variant["program"]["outputs"][0].update(shape=[-1, 2]), "was altered"),
        (lambda variant: variant["program"]["inputs"][0].update(dtype="complex"), "is complex"),
        (
            lambda variant: variant["program"]["devices"][0]["buffers"][1].update(dtype="f33"),
            "is of type 'f33'",
        ),
        (
            lambda variant: variant["program"]["devices"][0]["steps"][-1]["reads"][0].update(
                buffers=[7000]
            ),
            "uses buffers \\[7000\\], which are not on the device",
        ),
        (
            lambda variant: variant["program"].update(routes=[2**40, 2**40]),
            "of more than 16384 replicas",
        ),
    ],
)
def test_manifests_that_cannot_be_are_refused(tmp_path: Path, change: Change, told: str) -> None:
    """Whoever made them: nothing hangs, and nothing outside the bundle is read."""
    folder = split(conv_graph(), tmp_path / "b", (3,), loaders=2)
    try:
        change_manifest(folder, change)
    except msgspec.ValidationError:
        change_manifest(folder, change, honest=False)
    with pytest.raises(BundleError, match=told) as caught:
        load_bundle(folder)
    assert "manifest.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_change_of_a_manifest_is_seen(tmp_path: Path) -> None:
    """Its hash covers what no rule does."""
    folder = split(conv_graph(), tmp_path / "b", (3,))
    change_manifest(folder, lambda variant: variant.update(device="other"), honest=False)
    with pytest.raises(BundleError, match="is not what its hash says"):
        load_bundle(folder)


def test_balanced_children_are_about_equal() -> None:
    """A large last layer is a child of its own, and no child is empty beside it."""
    graph = load_graph(build_model("squeezenet", size=64))
    sizes = [
        sum(layer.weight_bytes for layer in graph.layers[start:stop])
        for start, stop in pairwise((0, *balanced_ends(graph, 3)))
    ]
    assert max(sizes) < 2 * min(sizes)


def test_balanced_children_leave_the_trainable_layers_to_the_last() -> None:
    """However many there are, the last of several begins with the first trainable layer."""
    graph = load_graph(build_model("squeezenet", size=64))
    total = len(graph.layers)
    names = [layer.name for layer in graph.layers]
    for count in (2, 3, 5):
        ends = balanced_ends(graph, count, [names[-1], names[30]])
        assert len(ends) == count
        assert ends[-2:] == (30, total)
    assert balanced_ends(graph, 1, [names[30]]) == (total,)
    with pytest.raises(BundleError, match="30 layers before the first trainable one"):
        balanced_ends(graph, 32, [names[30]])


def test_a_full_folder_for_temporary_files_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The engine says no more than that it failed."""
    import shutil
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Failed to write external initializers")

    graph = conv_graph()
    monkeypatch.setattr(ort, "InferenceSession", fail)
    with pytest.raises(BundleError, match=r"for temporary files is full: 0 B are free.*TMPDIR"):
        split(graph, tmp_path / "b", (3,))


def test_types_are_named_as_by_the_engine(tmp_path: Path) -> None:
    """The types of inputs and outputs are named as a session of ONNX Runtime names them."""
    with load_bundle(split(conv_graph(), tmp_path / "b", (3,))) as session:
        session.wait()
        inner = session._runner.sessions
        for specs, engine in (
            (session.get_inputs(), inner[0].get_inputs()),
            (session.get_outputs(), inner[0].get_outputs()),
        ):
            assert [spec.type for spec in specs] == [one.type for one in engine]


def test_threads_spin_only_briefly(tmp_path: Path) -> None:
    """As long as from one operator to the next; else they would hold up what loads and verifies."""
    graph = conv_graph()
    with load_bundle(split(graph, tmp_path / "b", (1, 3))) as session:
        session.wait()
        for child in session._runner.sessions.values():
            options = child.get_session_options()
            assert options.get_session_config_entry("session.intra_op.allow_spinning") == "1"
            spin_us = options.get_session_config_entry("session.intra_op.spin_duration_us")
            assert 0 < int(spin_us) <= 1000


def test_altered_weights_are_found_after_the_first_answer(tmp_path: Path) -> None:
    """Reading all weights would hold up the first answer; later ones are refused."""
    graph = load_graph(build_model("mobilenet_v2", size=32))
    folder = split(graph, tmp_path / "b", balanced_ends(graph, 2))
    path = folder / "s" / "weights.bin"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    feeds = ask(graph)
    with load_bundle(folder) as session:
        session.run(None, feeds)
        with pytest.raises(BundleError, match=r"weights\.bin' altered"):
            session.wait()
        with pytest.raises(BundleError, match="altered"):
            session.run(None, feeds)
    path.write_bytes(data[:-1])
    with pytest.raises(BundleError, match="bytes, the manifest says"):
        load_bundle(folder)


def test_a_bundle_for_another_processor_falls_back(tmp_path: Path) -> None:
    """The first variant that this processor can run is used; without one the error says so."""
    graph = conv_graph()
    divisions = [Division("tuned", (3,)), Division("portable", (1, 3), tuned=False)]
    write_bundle(graph, divisions, tmp_path / "b")
    change_manifest(tmp_path / "b", lambda variant: variant.update(processor="z80"))
    with load_bundle(tmp_path / "b") as session:
        assert session.variant.name == "portable"
        session.run(None, ask(graph))
    with pytest.raises(BundleError, match="no variant for this processor"):
        load_bundle(tmp_path / "b", variant="tuned")


def test_a_failed_write_leaves_the_old_bundle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a full disk the bundle that was there is as it was, and nothing half-written is left."""
    import partita.loading.write.write_bundle as split_module

    graph = conv_graph()
    folder = split(graph, tmp_path / "b", (1, 3))
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(split_module, "_write_child", full)
    with pytest.raises(BundleError, match="cannot be written: No space left on device"):
        split(graph, folder, (2, 3))
    assert {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    """Only a bundle, or nothing, is replaced."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("years of work")
    with pytest.raises(BundleError, match="is there and no bundle"):
        split(conv_graph(), tmp_path / "b", (3,))
    assert (tmp_path / "b" / "thesis.txt").read_text() == "years of work"
