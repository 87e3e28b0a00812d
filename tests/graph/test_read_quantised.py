"""Models that come quantised: their codes are found, kept, stored, and computed with."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from partita.graph import Graph, load_graph
from partita.graph.quantised import stored_shares
from partita.graph.whole import WholeModel
from tests.models import make_model, run_model
from tests.quantised_models import residual_network


def draw_image(seed: int = 0) -> dict[str, np.ndarray]:
    """Return a request of the residual network."""
    return {"x": np.random.default_rng(seed).standard_normal((1, 3, 16, 16)).astype(np.float32)}


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_weights_and_activations_are_known_as_codes(kind: str) -> None:
    """Each weight with a scale per output, each activation with one; values are the file's own."""
    graph = load_graph(residual_network(kind))
    weights = {name: graph.packings[name] for name in graph.packings if name in graph.constants}
    sizes = sorted((packing.scale.size, packing.bits) for packing in weights.values())
    assert sizes == [(10, 8), (16, 8), (16, 8), (16, 8), (300, 8), (300, 32)]
    assert all(packing.signed for packing in weights.values())
    for name, packing in weights.items():
        values = graph.constants[name]
        np.testing.assert_array_equal(packing.round(values), values)
    activations = [graph.packings[name] for name in graph.packings if name in graph.tensors]
    assert len(activations) == 9  # one of them only moves
    assert {int(packing.zero) for packing in activations} == {128, 0, 64, 30}


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_it_runs_on_the_engines_integer_kernels(kind: str) -> None:
    """The whole network does what the engine makes of its file: integer kernels, equal answers.

    Its dense layer, which the engine leaves on floats behind a Flatten, may be a step off.
    """
    model = residual_network(kind)
    graph = load_graph(model)
    assert graph.integer
    whole, session = WholeModel(graph), ort.InferenceSession(model.SerializeToString())
    answers = whole.run(draw_image())["y"]
    np.testing.assert_allclose(answers, session.run(None, draw_image())[0], atol=0.0201)
    assert len(np.unique(answers)) > 5


@pytest.mark.parametrize("stretch", [1.0, 3.0])
def test_a_bias_in_steps_of_its_own_keeps_a_layer_on_floats(stretch: float) -> None:
    """Integer kernels would take its codes for steps of their sums, and answer something else."""
    model = residual_network(stretch=stretch)
    graph = load_graph(model)
    dense = next(layer for layer in graph.layers if layer.kind == "Gemm")
    assert (dense.nodes[0] in graph.integer_nodes) == (stretch == 1.0)
    answers = WholeModel(graph).run(draw_image())["y"]
    np.testing.assert_allclose(answers, run_model(model, draw_image())[0], atol=0.0401)


def test_its_weights_take_a_byte_each() -> None:
    """In memory and in the store: a quarter of what they would take as floats."""
    graph = load_graph(residual_network())
    held = sum(layer.weight_bytes for layer in graph.layers)
    weights = sum(graph.constants[n].nbytes for n in graph.packings if n in graph.constants)
    assert held < weights / 4 + 400 + 3 * 300  # sums have four bytes still
    assert max(stored_shares(graph).values(), default=1.0) < 1.5


def quantised_product(codes: np.ndarray, scale: np.ndarray, kind: int, **attrs: int) -> Graph:
    """Return the graph of a product with weights that are codes of an ONNX type."""
    shape = list(codes.shape)
    tensor = helper.make_tensor("q", kind, shape, codes.reshape(-1).tolist())
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], **attrs),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    model = make_model(nodes, {"x": (1, shape[0])}, ["y"], {"s": scale}, opset=21)
    model.ir_version = 10  # the first with integers of four bits
    model.graph.initializer.append(tensor)
    return load_graph(model)


@pytest.mark.parametrize(("kind", "bits", "low"), [("INT8", 8, -128), ("INT4", 4, -8),
                                                   ("UINT8", 8, 0), ("UINT4", 4, 0)])  # fmt: skip
def test_codes_of_all_types_are_kept(kind: str, bits: int, low: int) -> None:
    """All codes of a type, its least one too, are found again from the values they stand for."""
    codes = np.arange(low, low + 2**bits).reshape(-1, 2 ** (bits // 2))
    scale = np.linspace(0.1, 1, codes.shape[1]).astype(np.float32)
    graph = quantised_product(codes, scale, getattr(TensorProto, kind), axis=1)
    packing = graph.packings["w"]
    assert (packing.bits, packing.axis) == (bits, 1)
    np.testing.assert_array_equal(graph.constants["w"], codes.astype(np.float32) * scale)
    np.testing.assert_array_equal(packing.round(graph.constants["w"]), graph.constants["w"])
    assert not graph.integer


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf])
def test_scales_that_hide_their_codes_leave_plain_floats(scale: float) -> None:
    """Where values do not tell the codes apart, weights are what they were folded to."""
    codes = np.arange(-8, 8).reshape(4, 4)
    graph = quantised_product(codes, np.float32(scale), TensorProto.INT8)
    assert not graph.packings
