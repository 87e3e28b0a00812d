"""A last child that is trained: its gradients, what changes, what does not, and what fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from partita.errors import BundleError, InputError, RunError
from partita.graph import Graph, load_graph
from partita.loading import (
    Division,
    PersonalOptions,
    balanced_ends,
    compute_features,
    load_bundle,
    load_frozen,
    personalise,
    read_manifest,
    write_bundle,
)
from partita.zoo import build_model
from tests.loading.bundles import change_manifest
from tests.models import make_model

CLASSES, SIZE = 4, 8
Nodes = list[onnx.NodeProto]


def network(tail: Nodes | None = None) -> Graph:
    """Return a small network: two convolutions with a skip, a mean, and two dense layers."""
    rng = np.random.default_rng(0)
    shapes = {
        "w0": (16, 3, 3, 3), "w1": (16, 16, 3, 3), "b1": (16,), "w2": (32, 16), "b2": (32,),
        "w3": (CLASSES, 32), "b3": (CLASSES,),
    }  # fmt: skip
    constants = {n: rng.standard_normal(s).astype(np.float32) * 0.3 for n, s in shapes.items()}
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], name="c0", **conv),
        helper.make_node("Relu", ["c0"], ["r0"], name="r0"),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], name="c1", **conv),
        helper.make_node("Relu", ["c1"], ["r1"], name="r1"),
        helper.make_node("Add", ["r1", "r0"], ["sum"], name="sum"),
        helper.make_node("GlobalAveragePool", ["sum"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["h"], name="hidden", transB=1),
        helper.make_node("Relu", ["h"], ["hr"], name="hr"),
        helper.make_node("Gemm", ["hr", "w3", "b3"], ["y"], name="head", transB=1),
        *(tail or []),
    ]
    end = tail[-1].output[0] if tail else "y"
    used = {name for node in nodes for name in node.input}
    kept = {name: array for name, array in constants.items() if name in used}
    return load_graph(make_model(nodes, {"x": (1, 3, SIZE, SIZE)}, [end], kept), name="small")


def split(graph: Graph, folder: Path, *, trainable: tuple[str, ...] = ("hidden", "head")) -> Path:
    """Write a bundle of a tuned and a portable variant, whose last children differ."""
    names = [layer.name for layer in graph.layers]
    total, last = len(names), names.index("hidden")
    divisions = [
        Division("tuned", (1, last, total)),
        Division("portable", (last - 1, total), tuned=False),
        Division("one", (total,)),
    ]
    write_bundle(graph, divisions, folder, trainable=trainable)
    return folder


def draw(count: int = 40) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return samples whose class is the brightest channel, and the last class never."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, count)
    samples = rng.standard_normal((count, 3, SIZE, SIZE)).astype(np.float32)
    samples[np.arange(count), labels] += 2
    return samples, labels


def answer(folder: Path, samples: np.ndarray[Any, Any], variant: str) -> np.ndarray[Any, Any]:
    """Return a variant's answers, its files verified."""
    with load_bundle(folder, variant=variant) as session:
        found = [session.run(None, {"x": sample[None]})[0] for sample in samples]
        session.wait()
    return np.concatenate(found)


def content(folder: Path) -> dict[str, bytes]:
    """Return every file of a bundle."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_an_unknown_operator_in_a_bundle_leaves_it_alone(tmp_path: Path) -> None:
    """The bundle answers with it, cannot be trained, and is as it was."""
    folder = split(network([helper.make_node("Erf", ["y"], ["e"], name="erf")]), tmp_path / "b")
    before, (samples, labels) = content(folder), draw(8)
    with pytest.raises(BundleError, match="Operator Erf"):
        personalise(folder, samples, labels)
    assert content(folder) == before


def test_training_changes_the_last_child_alone(tmp_path: Path) -> None:
    """Every variant answers as the trained model; frozen children and features are as they were."""
    graph = network()
    folder = split(graph, tmp_path / "b")
    samples, labels = draw()
    before, features = content(folder), compute_features(folder, samples)
    outcome = personalise(folder, samples, labels, PersonalOptions(epochs=30, rate=0.02))
    assert outcome.accuracy_before is not None
    assert outcome.accuracy_after is not None
    assert outcome.accuracy_after >= max(0.8, outcome.accuracy_before)
    assert outcome.loss_after < outcome.loss_before
    assert outcome.variants == ("tuned", "portable", "one")
    assert outcome.left_out == ()
    assert outcome.trained == 32 * 16 + 32 + CLASSES * 32 + CLASSES
    after = content(folder)
    for variant in read_manifest(folder).variants:
        frozen = [f"{variant.name}/{child.file}" for child in variant.children[:-1]]
        for name in (*frozen, f"{variant.name}/weights.bin"):
            assert after[name] == before[name]
        last = variant.children[-1]
        assert f"{variant.name}/{last.file}" not in before
        assert last.source is not None
        new = (last.file, last.weights, last.source.file, last.source.weights)
        assert {f"{variant.name}/{name}" for name in new} <= set(after)
    assert len(after) == len(before) + 3
    for one, other in zip(compute_features(folder, samples), features, strict=True):
        np.testing.assert_array_equal(one, other)
    wanted = trained_answer(graph, folder, samples)
    for variant in ("tuned", "portable", "one"):
        found = answer(folder, samples, variant)
        assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def trained_answer(graph: Graph, folder: Path, samples: np.ndarray[Any, Any]) -> Any:
    """Return what the whole model answers once it has the weights that a bundle was given."""
    variant = read_manifest(folder).variants[0]
    source = variant.children[-1].source
    assert source is not None
    trained = onnx.load(folder / variant.name / source.file).graph.initializer
    model = graph.to_model()
    whole = {weight.name: weight for weight in model.graph.initializer}
    for weight in trained:
        if weight.name.startswith("trained:"):
            name = weight.name.removeprefix("trained:")
            whole[name].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight), name))
    run = ort.InferenceSession(model.SerializeToString()).run
    return np.concatenate([run(None, {graph.inputs[0]: one[None]})[0] for one in samples])


def test_a_last_child_that_reads_several_tensors(tmp_path: Path) -> None:
    """A cut that two tensors cross, inside a real network's block, is as good as any other."""
    graph = load_graph(build_model("efficientnet_b0", size=32))
    names = [layer.name for layer in graph.layers]
    ends = balanced_ends(graph, 2)
    write_bundle(
        graph, [Division("s", ends)], tmp_path / "b", trainable=["head.conv", "classifier"]
    )
    assert names.index("head.conv") > ends[0]
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((4, 3, 32, 32)).astype(np.float32)
    assert len(compute_features(tmp_path / "b", samples)) == 2
    options = PersonalOptions(epochs=1, held_out=0, batch=2)
    outcome = personalise(tmp_path / "b", samples, np.array([5, 6, 5, 6]), options)
    assert outcome.loss_after < outcome.loss_before
    wanted = trained_answer(graph, tmp_path / "b", samples)
    with load_bundle(tmp_path / "b") as session:
        found = np.concatenate([session.run(None, {graph.inputs[0]: x[None]})[0] for x in samples])
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_only_trainable_layers_are_trained(tmp_path: Path) -> None:
    """A last child that holds frozen layers, too, leaves their weights as they are."""
    folder = split(network(), tmp_path / "b", trainable=("head",))
    outcome = personalise(folder, *draw(12), PersonalOptions(epochs=1))
    assert outcome.trained == CLASSES * 32 + CLASSES


def test_it_can_be_done_again(tmp_path: Path) -> None:
    """A second training begins where the first ended, and leaves no files of the first."""
    folder = split(network(), tmp_path / "b")
    samples, labels = draw()
    options = PersonalOptions(epochs=10, held_out=0)
    first = personalise(folder, samples, labels, options)
    count = len(content(folder))
    second = personalise(folder, samples, labels, options)
    assert second.loss_before == pytest.approx(first.loss_after, rel=1e-4)
    assert second.loss_after < first.loss_after
    assert len(content(folder)) == count


def test_the_same_seed_gives_the_same_bundle(tmp_path: Path) -> None:
    """Nothing depends on when or where it was trained."""
    made = []
    for name in ("a", "b"):
        folder = split(network(), tmp_path / name)
        personalise(folder, *draw(20), PersonalOptions(epochs=2, seed=7))
        made.append(content(folder))
    assert made[0] == made[1]


def test_wanted_outputs_are_learned(tmp_path: Path) -> None:
    """With mse the labels are outputs, and there is no accuracy."""
    folder = split(network(), tmp_path / "b")
    samples, classes = draw(20)
    wanted = np.eye(CLASSES, dtype=np.float32)[classes]
    options = PersonalOptions(epochs=20, loss="mse", optimiser="sgd", rate=0.01, held_out=0)
    outcome = personalise(folder, samples, wanted, options)
    assert outcome.loss_after < outcome.loss_before
    assert outcome.accuracy_after is None


def test_a_softmax_at_the_end_is_trained_through(tmp_path: Path) -> None:
    """Cross entropy is of what goes into it; the bundle goes on to answer probabilities."""
    graph = network([helper.make_node("Softmax", ["y"], ["s"], name="soft", axis=1)])
    folder, (samples, labels) = split(graph, tmp_path / "b"), draw(20)
    outcome = personalise(folder, samples, labels, PersonalOptions(epochs=5, held_out=0))
    assert outcome.loss_after < outcome.loss_before
    np.testing.assert_allclose(answer(folder, samples, "tuned").sum(1), 1, rtol=1e-5)


def test_frozen_children_answer_what_the_last_one_reads(tmp_path: Path) -> None:
    """They give the tensors at the cut; of a bundle of one child the inputs themselves."""
    graph, (samples, _) = network(), draw(2)
    folder = split(graph, tmp_path / "b")
    model = graph.to_model()
    with load_frozen(folder, variant="tuned") as session:
        (spec,) = session.get_outputs()
        (found,) = session.run(None, {"x": samples[:1]})
    model.graph.output.append(helper.make_tensor_value_info(spec.name, 1, spec.shape))
    wanted = ort.InferenceSession(model.SerializeToString()).run([spec.name], {"x": samples[:1]})
    np.testing.assert_allclose(found, wanted[0], rtol=1e-5, atol=1e-6)
    (given,) = compute_features(folder, samples, variant="one")
    np.testing.assert_array_equal(given, samples)


def test_features_are_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read for the same samples, and computed anew for others or from a damaged file."""
    from partita.loading.personal import features

    folder, (samples, _) = split(network(), tmp_path / "b"), draw(4)
    cache = tmp_path / "f.npz"
    (first,) = compute_features(folder, samples, cache=cache)
    runs, run = [], features._run
    monkeypatch.setattr(features, "_run", lambda *a: (runs.append(1), run(*a))[1])
    (again,) = compute_features(folder, samples, cache=cache)
    np.testing.assert_array_equal(again, first)
    assert not runs
    compute_features(folder, samples + 1, cache=cache)
    cache.write_bytes(b"PK damaged")
    (anew,) = compute_features(folder, samples, cache=cache)
    np.testing.assert_array_equal(anew, first)
    assert len(runs) == 2


class Interrupted(KeyboardInterrupt):
    """Ctrl-C."""


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), Interrupted()])
@pytest.mark.parametrize("place", range(18))
def test_failures_leave_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, place: int
) -> None:
    """A full disk or Ctrl-C at any write leaves every byte as it was, and nothing more."""
    folder = split(network(), tmp_path / "b")
    before, steps = content(folder), []

    def count(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            steps.append(1)
            if len(steps) > place:
                raise fault
            return call(*arguments)

        return counted

    monkeypatch.setattr(os, "fsync", count(os.fsync))
    monkeypatch.setattr(os, "replace", count(os.replace))
    with pytest.raises(Interrupted if isinstance(fault, Interrupted) else BundleError):
        personalise(folder, *draw(8), PersonalOptions(epochs=1))
    assert len(steps) == place + 1
    assert content(folder) == before


def test_an_interruption_after_the_last_step_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C just after the manifest was replaced leaves the new bundle, whole."""
    folder, (samples, labels) = split(network(), tmp_path / "b"), draw(8)
    before, put = answer(folder, samples, "tuned"), os.replace

    def put_and_stop(*arguments: Any) -> None:
        put(*arguments)
        raise Interrupted

    monkeypatch.setattr(os, "replace", put_and_stop)
    with pytest.raises(Interrupted):
        personalise(folder, samples, labels, PersonalOptions(epochs=1))
    assert not np.allclose(answer(folder, samples, "tuned"), before)


def test_training_that_diverges_leaves_the_bundle(tmp_path: Path) -> None:
    """A loss that is no number is an error that says what to do."""
    folder = split(network(), tmp_path / "b")
    before = content(folder)
    options = PersonalOptions(optimiser="sgd", rate=1e30)
    with pytest.raises(RunError, match=r"the loss is .* Lower the rate"):
        personalise(folder, *draw(20), options)
    assert content(folder) == before


def test_variants_for_other_processors_are_left_out(tmp_path: Path) -> None:
    """Their last child cannot be made here; the outcome names them."""
    folder = split(network(), tmp_path / "b")
    change_manifest(folder, lambda variant: variant.update(processor="z80"))
    outcome = personalise(folder, *draw(12), PersonalOptions(epochs=1))
    assert outcome.left_out == ("tuned",)
    assert outcome.variants == ("portable", "one")
    assert [one.name for one in read_manifest(folder).variants] == ["portable", "one"]
    answer(folder, draw(1)[0], "portable")


def test_altered_files_are_found(tmp_path: Path) -> None:
    """Altered weights are not trained on; an altered source graph or new weights are refused."""
    samples, labels = draw(8)

    def alter(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    for name in ("tuned/weights.bin", "tuned/child-2.plain.onnx", "tuned/child-2.plain.bin"):
        folder = split(network(), tmp_path / "b")
        alter(folder / name)
        with pytest.raises(BundleError, match="altered"):
            personalise(folder, samples, labels)
    folder = split(network(), tmp_path / "b")
    personalise(folder, samples, labels, PersonalOptions(epochs=1))
    last = read_manifest(folder).variants[0].children[-1]
    alter(folder / "tuned" / last.weights)
    with pytest.raises(BundleError, match=r"\.bin' altered"):
        answer(folder, samples, "tuned")
    (folder / "tuned" / last.weights).write_bytes(b"short")
    with pytest.raises(BundleError, match="5 bytes, the manifest says"):
        load_bundle(folder, variant="tuned")


def test_bad_samples_labels_and_options_are_refused(tmp_path: Path) -> None:
    """Each error says what was got and what is allowed."""
    folder, (samples, labels) = split(network(), tmp_path / "b"), draw(8)
    before = content(folder)
    for given, wanted, message in (
        (samples[:, :2], labels, r"float32\[8, 2, 8, 8\], the model takes float32\[N, 3, 8, 8\]"),
        (samples[:0], labels[:0], "at least one"),
        ({"z": samples}, labels, "inputs 'z', the model takes 'x'"),
        (samples, labels[:7], "allowed are 8 whole numbers, a class from 0 to 3"),
        (samples, labels.astype(np.float32), "allowed are 8 whole numbers"),
        (samples, labels + 2, "allowed are classes from 0 to 3"),
    ):
        with pytest.raises(InputError, match=message):
            personalise(folder, given, wanted)
    with pytest.raises(InputError, match="for mse allowed are numbers"):
        personalise(folder, samples, labels, PersonalOptions(loss="mse"))
    for options in ({"epochs": 0}, {"rate": 0}, {"held_out": 1}, {"optimiser": "x"}):
        with pytest.raises(InputError, match="allowed are"):
            PersonalOptions(**options)
    assert content(folder) == before
    write_bundle(network(), [Division("s", (len(network().layers),))], folder)
    with pytest.raises(BundleError, match="split without trainable layers"):
        personalise(folder, samples, labels)


def test_layers_without_weights_cannot_be_trained(tmp_path: Path) -> None:
    """A bundle whose trainable layers hold nothing to train is not written."""
    with pytest.raises(BundleError, match="'pool' have no float weights"):
        write_bundle(network(), [Division("s", (6,))], tmp_path / "b", trainable=("pool",))
    assert list(tmp_path.iterdir()) == []


def test_pytorch_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the error says how it is installed."""
    monkeypatch.setattr("partita.loading.personal.personalise.find_spec", lambda name: None)
    with pytest.raises(BundleError, match=r"pip install '\.\[train\]'"):
        personalise(tmp_path, *draw(2))
