"""Models with quantised weights: folded to floats, and not quantised anew by the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from partita.engine import OrtEngine
from partita.graph import load_graph
from partita.graph.fragment import BlobStore
from partita.graph.whole import WholeModel
from partita.loading import Division, load_bundle, write_bundle
from tests.graph.test_read_quantised import draw_image
from tests.models import make_model
from tests.quantised_models import residual_network


def test_quantised_models_answer_as_the_file(tmp_path: Path) -> None:
    """Per-channel weights keep their scales, in an engine session and in a bundle."""
    rng = np.random.default_rng(0)
    constants = {
        "q": rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8),
        "s": (0.001 * 4.0 ** np.arange(8)).astype(np.float32) / 100,
        "z": np.zeros(8, np.int8),
        "xs": np.float32(0.02),
        "xz": np.int8(0),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"], name="quantise"),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"], name="back"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], name="weights", axis=0),
        helper.make_node("Conv", ["xd", "w"], ["c"], name="conv"),
        helper.make_node("QuantizeLinear", ["c", "xs", "xz"], ["cq"], name="quantise2"),
        helper.make_node("DequantizeLinear", ["cq", "xs", "xz"], ["y"], name="back2"),
    ]
    model = make_model(nodes, {"x": (1, 3, 12, 12)}, ["y"], constants)
    image = rng.standard_normal((1, 3, 12, 12)).astype(np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": image})
    graph = load_graph(model)
    found = OrtEngine().load(graph.to_model().SerializeToString(), BlobStore(graph).blobs)
    # One step of the last quantisation, where rounding falls the other way.
    np.testing.assert_allclose(found.run([image])[0], wanted, atol=0.0201)
    assert np.mean(found.run([image])[0] != wanted) < 0.01
    write_bundle(graph, [Division("s", (1, len(graph.layers)))], tmp_path / "b")
    with load_bundle(tmp_path / "b") as session:
        (answer,) = session.run(None, {"x": image})
    assert np.mean(answer != wanted) < 0.01


def test_bundles_of_quantised_models_keep_their_size_and_kernels(tmp_path: Path) -> None:
    """Weights lie in the bundle a byte each, and its children compute with integers."""
    graph = load_graph(residual_network())
    manifest = write_bundle(graph, [Division("s", (2, len(graph.layers)))], tmp_path / "b")
    floats = sum(a.nbytes for n, a in graph.constants.items() if n in graph.packings)
    assert sum(child.size_bytes for child in manifest.variants[0].children) < floats
    files = (tmp_path / "b" / "s" / child.file for child in manifest.variants[0].children)
    models = [onnx.load(file, load_external_data=False) for file in files]
    operators = {node.op_type for model in models for node in model.graph.node}
    assert "QLinearConv" in operators
    expected = WholeModel(graph).run(draw_image())["y"]
    with load_bundle(tmp_path / "b") as session:
        (answer,) = session.run(None, draw_image())
    np.testing.assert_array_equal(answer, expected)
