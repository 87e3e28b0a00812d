"""ONNX Runtime as an engine: the right answer, or a refusal in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from partita.engine import OrtEngine, OrtOptions, make_inputs
from partita.engine.onnx_facts import StoredTensor, read_facts
from partita.errors import RunError
from partita.program import TensorSpec
from tests.engine.graphs import (
    SHAPE,
    blob,
    blob_name,
    convolution,
    fragment,
    plain_convolution,
    seeded,
)
from tests.engine.null_engine import NullEngine

WEIGHTS = seeded((4, 4, 3, 3))
BLOBS = {blob_name(WEIGHTS): blob(WEIGHTS)}


def test_weights_from_memory_give_the_plain_models_answer() -> None:
    """A graph with outside weights equals the same graph with inside weights, bit for bit."""
    data = seeded(SHAPE, 1)
    plain = onnxruntime.InferenceSession(plain_convolution(WEIGHTS)).run(None, {"i0": data})[0]
    ours = OrtEngine().load(convolution(WEIGHTS), BLOBS).run([data])[0]
    np.testing.assert_array_equal(ours, plain)
    assert np.abs(plain).max() > 1


@pytest.mark.parametrize("prepack", [True, False])
def test_blobs_may_be_dropped_after_load(prepack: bool) -> None:
    """Overwriting the blob after the load changes nothing: the session has its own copy."""
    bytes_ = blob(WEIGHTS)
    engine = OrtEngine(options=OrtOptions(prepack=prepack))
    runner = engine.load(convolution(WEIGHTS), {blob_name(WEIGHTS): bytes_})
    data = [seeded(SHAPE, 1)]
    before = runner.run(data)[0].copy()
    bytes_[:] = 0
    np.testing.assert_array_equal(runner.run(data)[0], before)


def test_what_is_to_be_ready_soon_reads_its_weights_where_they_lie() -> None:
    """Nothing is copied nor rearranged, not even from a read-only file; the answer is the same."""
    bytes_ = blob(WEIGHTS)
    bytes_.flags.writeable = False
    data = [seeded(SHAPE, 1)]
    runner = OrtEngine().load(convolution(WEIGHTS), {blob_name(WEIGHTS): bytes_}, prepack=False)
    assert np.shares_memory(runner._values["w"], bytes_)
    plain = OrtEngine().load(convolution(WEIGHTS), BLOBS).run(data)[0]
    np.testing.assert_allclose(runner.run(data)[0], plain, atol=1e-5 * float(np.abs(plain).max()))


@pytest.mark.parametrize("prepack", [True, False])
def test_weights_that_are_cut_short_are_refused(prepack: bool) -> None:
    """Nothing past their end is read, however they are loaded."""
    short = {blob_name(WEIGHTS): blob(WEIGHTS)[:-4]}
    with pytest.raises(RunError, match="Fragment cannot be loaded"):
        OrtEngine().load(convolution(WEIGHTS), short, prepack=prepack)


def test_what_lies_apart_is_known_with_its_shape_and_place() -> None:
    """Of the main graph's initializers, of types that NumPy has."""
    (tensor,) = read_facts(convolution(WEIGHTS)).stored
    assert tensor == StoredTensor(TensorSpec("w", WEIGHTS.shape, "float32"), blob_name(WEIGHTS), 0)
    assert read_facts(plain_convolution(WEIGHTS)).stored == []


def test_runner_knows_its_inputs_and_outputs() -> None:
    """Names, shapes and types come from the graph; initializers are no inputs."""
    runner = OrtEngine().load(convolution(WEIGHTS), BLOBS)
    assert [(s.name, s.shape, s.dtype) for s in runner.inputs] == [("i0", SHAPE, "float32")]
    assert [(s.name, s.shape, s.dtype) for s in runner.outputs] == [("o0", SHAPE, "float32")]
    assert runner.providers == ("CPUExecutionProvider",)


def test_missing_provider_is_said_and_the_cpu_computes() -> None:
    """A wished provider that is not there leads to a sentence, not to a failure."""
    engine = OrtEngine(1, ["TensorrtExecutionProvider", "CPUExecutionProvider"])
    assert engine.providers == ("CPUExecutionProvider",)
    assert engine.fallback.startswith("TensorrtExecutionProvider is not available here")
    assert engine.fallback.endswith("CPUExecutionProvider computes instead.")
    assert OrtEngine().fallback == ""


def custom_domain() -> bytes:
    """Return a graph with an operator that only a foreign library has."""
    return fragment([helper.make_node("Evil", ["i0"], ["o0"], domain="evil.org")], [], "evil.org")


def hidden_domain() -> bytes:
    """Return the same inside the branches of an If."""
    model = onnx.load_from_string(custom_domain())
    branch = helper.make_graph(model.graph.node, "branch", [], model.graph.output)
    condition = helper.make_node(
        "Constant", [], ["c"], value=helper.make_tensor("t", onnx.TensorProto.BOOL, [], [True])
    )
    choice = helper.make_node("If", ["c"], ["o0"], then_branch=branch, else_branch=branch)
    return fragment([condition, choice], [], "evil.org")


REFUSED = {
    "empty": (b"", "not an ONNX model"),
    "text": (b"hello world, this is no model", "not an ONNX model"),
    "cut short": (convolution(WEIGHTS)[:-40], "not an ONNX model"),
    "ORT format": (b"\x18\x00\x00\x00ORTM" + bytes(64), "not an ONNX model"),
    "custom operator": (custom_domain(), "operators of domain 'evil.org'"),
    "custom operator in a branch": (hidden_domain(), "operators of domain 'evil.org'"),
    "weights in a file": (convolution(WEIGHTS, "/etc/passwd"), "weights in '/etc/passwd'"),
    "weights beside the store": (convolution(WEIGHTS, "../" + "a" * 64), "weights in '../aaa"),
    "weights missing": (convolution(WEIGHTS, "a" * 64), "weight blob aaaa"),
    "unknown operator": (fragment([helper.make_node("Nope", ["i0"], ["o0"])], []), "Nope"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_fragments_are_refused_in_one_line(case: str) -> None:
    """Damaged, foreign and escaping fragments each give one sentence that says why."""
    graph, reason = REFUSED[case]
    with pytest.raises(RunError) as caught:
        OrtEngine().load(graph, BLOBS)
    assert reason in caught.value.message
    assert "\n" not in caught.value.message


def test_every_truncation_and_flip_is_an_error_or_loads() -> None:
    """No damage to the graph's bytes raises anything but a RunError."""
    graph = convolution(WEIGHTS)
    rng = np.random.default_rng(0)
    damaged = [graph[:n] for n in range(0, len(graph), 3)]
    for _ in range(100):
        flipped = bytearray(graph)
        flipped[int(rng.integers(len(graph)))] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    refused = 0
    for data in damaged:
        try:
            OrtEngine().load(data, BLOBS)
        except RunError:
            refused += 1
    assert refused > len(damaged) / 2


def test_memory_limit_counts_weights_and_tensors() -> None:
    """A fragment over the limit is refused with both sizes; one below it loads."""
    graph = convolution(WEIGHTS)
    needed = len(graph) + WEIGHTS.nbytes + 2 * 4 * int(np.prod(SHAPE))
    OrtEngine(options=OrtOptions(memory_limit_bytes=needed)).load(graph, BLOBS)
    with pytest.raises(RunError, match=r"it needs .* are allowed"):
        OrtEngine(options=OrtOptions(memory_limit_bytes=needed - 1)).load(graph, BLOBS)


def test_wrong_inputs_are_run_errors() -> None:
    """A missing input, another shape and another type are errors of the run, in one line."""
    runner = OrtEngine().load(convolution(WEIGHTS), BLOBS)
    bad = ([], [seeded((1, 4, 9, 8))], [seeded(SHAPE).astype(np.float64)])
    for arrays in bad:
        with pytest.raises(RunError) as caught:
            runner.run(arrays)
        assert "\n" not in caught.value.message


def test_null_engine_answers_zeros_of_the_right_shape() -> None:
    """The null engine needs no computing and refuses what the real one refuses."""
    runner = NullEngine().load(convolution(WEIGHTS), BLOBS)
    (output,) = runner.run(make_inputs(runner.inputs))
    assert output.shape == SHAPE
    assert output.dtype == np.float32
    assert not output.any()
    with pytest.raises(RunError, match="shape"):
        runner.run([seeded((1, 1))])
    with pytest.raises(RunError, match=r"evil\.org"):
        NullEngine().load(custom_domain(), {})


def test_the_engine_reports_to_nobody(tmp_path: Path) -> None:
    """Its telemetry would leave an identity and a database of events in the user's folders."""
    load = "from partita.engine import OrtEngine; from partita.engine.reference import Reference"
    # Of a continuous integration it would say nothing anyway: none of its variables here.
    known = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    places = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-c", f"{load}; Reference().time_s()"], env={**known, **places}, check=True
    )
    assert not list(tmp_path.rglob("*"))
