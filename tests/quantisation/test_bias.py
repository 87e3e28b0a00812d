"""Biases that make up for what rounding weights shifts in the mean."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from partita.errors import PlanError
from partita.graph import Graph, load_graph
from partita.graph.whole import WholeModel
from partita.quantisation import (
    CodeOptions,
    LayerBits,
    Reference,
    choose_bits,
    collect_ranges,
    quantize,
)
from partita.quantisation.samples import Feeds
from tests.models import make_model
from tests.quantisation.networks import draw_samples, small_graph

UNCORRECTED = CodeOptions(corrects_bias=False)


def _network(*, transposed: int = 1) -> Graph:
    """Return a convolution of two groups without borders, a mean and a dense layer."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], name="grouped", group=2),
        helper.make_node("GlobalAveragePool", ["a"], ["g"], name="mean"),
        helper.make_node("Flatten", ["g"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["y"], name="dense", transB=transposed),
    ]
    constants = {
        "w1": rng.standard_normal((6, 2, 1, 1), np.float32),
        "b1": rng.standard_normal(6, np.float32),
        "w2": rng.standard_normal((5, 6) if transposed else (6, 5), np.float32),
        "b2": rng.standard_normal(5, np.float32),
    }
    return load_graph(make_model(nodes, {"x": [1, 4, 8, 8]}, ["y"], constants), name="net")


def _samples() -> list[Feeds]:
    rng = np.random.default_rng(1)
    return [{"x": rng.random((1, 4, 8, 8), np.float32) + 1} for _ in range(6)]


@pytest.mark.parametrize("transposed", [0, 1])
def test_in_the_mean_sums_are_as_before(transposed: int) -> None:
    """Of the layer's outputs over the samples, where only its weights are rounded."""
    graph, samples = _network(transposed=transposed), _samples()
    ranges = collect_ranges(graph, samples)
    assert {name: len(means) for name, means in ranges.means.items()} == {"grouped": 4, "dense": 6}
    for layer, tensor in (("grouped", "a"), ("dense", "y")):

        def mean(which: Graph, tensor: str = tensor) -> np.ndarray:
            model = WholeModel(which, [tensor])
            made = np.concatenate([model.run(feeds)[tensor] for feeds in samples])
            return made.mean(axis=(0, *range(2, made.ndim)), dtype=np.float64)

        off = []
        for options in (CodeOptions(), UNCORRECTED):
            bits = choose_bits(graph, ranges, {layer: 2}, None, options)
            off.append(np.abs(mean(quantize(graph, bits)) - mean(graph)).max())
        assert off[0] < 1e-3 < 1e-2 < off[1]


def test_outputs_gain_and_biases_are_still_whole_numbers_of_steps() -> None:
    """With 4 bits for weights and 8 for activations, as integer kernels hold it."""
    graph, samples = small_graph(), draw_samples(8)
    ranges, reference = collect_ranges(graph, samples), Reference(graph, samples)
    bits, plain = (choose_bits(graph, ranges, 4, 8, each) for each in (CodeOptions(), UNCORRECTED))
    gained = reference.signal_to_noise_db(bits) - reference.signal_to_noise_db(plain)
    assert gained > 1
    quantised = quantize(graph, bits)
    packing = quantised.packings["b1"]
    assert (packing.round(quantised.constants["b1"]) == quantised.constants["b1"]).all()
    assert (quantised.constants["b1"] != quantize(graph, plain).constants["b1"]).any()
    assert quantize(graph, {"first": LayerBits(weight=4)}).constants["b1"] is graph.constants["b1"]


def test_means_that_do_not_fit_are_refused() -> None:
    """One line names the layer, how many there are, and how many are allowed."""
    bits = {"first": LayerBits(weight=4, means=(0.5, 0.5))}
    with pytest.raises(PlanError, match="'first' have 2 means, allowed: 3 finite numbers"):
        quantize(small_graph(), bits)
