"""Quantised graphs as files: the same answers, the codes' size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from partita.errors import ModelError
from partita.graph.quantised import stored_bytes
from partita.graph.whole import WholeModel
from partita.quantisation import (
    CodeOptions,
    choose_bits,
    collect_ranges,
    quantize,
    to_qdq_model,
)
from tests.models import relative_difference, run_model
from tests.quantisation.networks import draw_samples, small_graph


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize(
    ("weights", "activations", "kinds"),
    [
        (8, 8, {(False): TensorProto.INT8, (True): TensorProto.UINT8}),
        (4, 8, {(False): TensorProto.INT4, (True): TensorProto.UINT4}),
        (4, 4, {(False): TensorProto.INT4, (True): TensorProto.UINT4}),
        (8, None, {(False): TensorProto.INT8, (True): TensorProto.UINT8}),
    ],
)
def test_the_file_answers_as_the_graph_does(
    weights: int, activations: int | None, kinds: dict[bool, int], affine: bool
) -> None:
    """Weights are stored as codes of their type, and a plain engine computes the same from them."""
    graph = small_graph()
    ranges = collect_ranges(graph, draw_samples())
    bits = choose_bits(graph, ranges, weights, activations, CodeOptions(affine=affine))
    quantised = quantize(graph, bits)
    model = to_qdq_model(quantised)
    onnx.checker.check_model(model, full_check=True)
    stored = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert stored["w1.codes"] == kinds[affine]
    assert ("b1.codes" in stored) == (activations is not None)
    (feeds,) = draw_samples(1)
    answer = run_model(model, feeds)
    assert relative_difference(answer, list(WholeModel(quantised).run(feeds).values())) < 1e-5


def test_widths_without_a_type_are_refused() -> None:
    """ONNX has no 6-bit numbers: one line says so."""
    graph = small_graph()
    quantised = quantize(graph, choose_bits(graph, None, {"first": 6}, None))
    with pytest.raises(
        ModelError, match="cannot be written with 6 bits: an ONNX file allows 4 and"
    ):
        to_qdq_model(quantised)


def test_stored_bytes_are_those_of_codes_and_scales() -> None:
    """Counted by hand: 4-bit weights two to a byte, and a scale and a zero for each channel."""
    graph = small_graph()
    quantised = quantize(graph, choose_bits(graph, None, {"second": 4}, None))
    saved = 8 * 8 * 9 * 4 - (8 * 8 * 9 // 2 + 8 * 8)
    assert stored_bytes(quantised) == graph.weight_bytes - saved
    assert stored_bytes(graph) == sum(np.asarray(a).nbytes for a in graph.constants.values())
