"""Quantised graphs: what is rounded to what, and what stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from partita.errors import PlanError
from partita.graph import Graph, load_graph
from partita.graph.quantised import with_kernels
from partita.graph.whole import WholeModel
from partita.quantisation import (
    CodeOptions,
    LayerBits,
    Reference,
    choose_bits,
    collect_ranges,
    quantize,
)
from partita.regions import SUM_BITS, Clipping
from partita.zoo import build_model
from tests.models import make_model
from tests.quantisation.networks import draw_samples, small_graph


def _quantised(weights: int | None = 8, activations: int | None = 8) -> Graph:
    graph, options = small_graph(), CodeOptions(corrects_bias=False)
    ranges = collect_ranges(graph, draw_samples())
    return quantize(graph, choose_bits(graph, ranges, weights, activations, options))


def test_layers_keep_their_names_and_tensors_theirs() -> None:
    """Only the rounding of the input is a layer more; what layers read and answer is the same."""
    graph, quantised = small_graph(), _quantised()
    assert [layer.name for layer in quantised.layers[1:]] == [layer.name for layer in graph.layers]
    assert quantised.layers[0].name == "x.quantize"
    for layer in graph.layers:
        twin = quantised.layer(layer.name)
        assert (twin.outputs, twin.kind, twin.macs) == (layer.outputs, layer.kind, layer.macs)
        assert twin.inputs == tuple("x.quantized" if n == "x" else n for n in layer.inputs)
    assert [s.name for s in quantised.input_specs] == ["x"]
    assert quantised.hash != graph.hash
    assert quantised.input_specs == graph.input_specs


def test_a_graph_without_bits_is_itself() -> None:
    """No table, or one that says nothing, changes nothing; a quantised graph gives its own back."""
    graph = small_graph()
    assert quantize(graph, {}) is graph
    assert quantize(graph, {"first": LayerBits()}) is graph
    some = quantize(graph, {"first": LayerBits(weight=4)})
    assert quantize(some, {}) is graph
    assert quantize(some, {"first": LayerBits(weight=4)}).hash == some.hash
    assert quantize(some, {"first": LayerBits(weight=8)}).base is graph


def test_a_hash_follows_from_the_graph_and_its_table() -> None:
    """Another width, another network, other kernels: another hash; no weight is made for it."""
    graph, entry = small_graph(), LayerBits(weight=4)
    quantised = quantize(graph, {"first": entry})
    other = small_graph()
    other.constants["w3"][0, 0] += 1
    hashes = {
        quantised.hash,
        quantize(graph, {"first": LayerBits(weight=8)}).hash,
        quantize(other, {"first": entry}).hash,
        with_kernels(quantised, integer=True).hash,
        graph.hash,
    }
    assert len(hashes) == 5
    assert quantize(small_graph(), {"first": entry}).hash == quantised.hash


@pytest.mark.parametrize("bits", [2, 3, 4, 6, 8])
def test_weights_are_values_of_codes(bits: int) -> None:
    """Each channel has at most 2**bits - 1 values, those of its codes, and the largest stays."""
    graph = small_graph()
    quantised = quantize(graph, {"first": LayerBits(weight=bits)})
    weights, packing = quantised.constants["w1"], quantised.packings["w1"]
    assert np.array_equal(packing.round(weights), weights)
    for channel, before in zip(weights, graph.constants["w1"], strict=True):
        assert len(np.unique(channel)) <= 2**bits - 1
        assert np.abs(channel).max() == pytest.approx(np.abs(before).max())
    assert np.array_equal(quantised.constants["b1"], graph.constants["b1"])


@pytest.mark.parametrize("bits", [2, 3, 4, 6, 8])
def test_activations_are_values_of_codes(bits: int) -> None:
    """What a layer makes has at most 2**bits values, those nearest to what it would have made."""
    graph = small_graph()
    table = {"first": LayerBits(activation=bits, low=-0.5, high=3.0)}
    quantised = quantize(graph, table)
    (feeds,) = draw_samples(1)
    rounded = WholeModel(quantised, ["r"]).run(feeds)["r"]
    made = WholeModel(graph, ["r"]).run(feeds)["r"]
    packing = quantised.packings["r"]
    assert np.array_equal(rounded, packing.round(made))
    assert len(np.unique(rounded)) <= 2**bits
    assert rounded.max() <= 3.0 + packing.scale


def test_what_only_moves_values_keeps_their_codes() -> None:
    """A pool's and a reshape's answers are codes of what they read, without nodes of their own."""
    quantised = _quantised()
    assert quantised.packings["p"] is quantised.packings["r"]
    assert quantised.packings["f"] is quantised.packings["g"]
    (feeds,) = draw_samples(1)
    pooled = WholeModel(quantised, ["p"]).run(feeds)["p"]
    assert np.array_equal(quantised.packings["p"].round(pooled), pooled)
    assert len(quantised.layer("pool").nodes) == 1


def test_a_bias_is_rounded_to_the_steps_of_its_sums() -> None:
    """Behind quantised inputs and weights: the product of their steps; else it stays."""
    graph, quantised = small_graph(), _quantised()
    packing = quantised.packings["b1"]
    steps = quantised.packings["x.quantized"].scale * quantised.packings["w1"].scale
    assert packing.bits == SUM_BITS
    assert np.allclose(packing.scale, steps)
    off = np.abs(quantised.constants["b1"] - graph.constants["b1"])
    assert (off <= steps / 2 + 1e-7).all()
    assert "b1" not in _quantised(activations=None).packings


def test_a_bias_beside_next_to_no_weights_has_room() -> None:
    """A dead channel's scale is raised, so that its bias fits into the sums' integers."""
    graph = small_graph()
    graph.constants["w1"][3] = 1e-20
    ranges = collect_ranges(graph, draw_samples())
    quantised = quantize(graph, choose_bits(graph, ranges, 8, 8, CodeOptions(corrects_bias=False)))
    assert np.abs(quantised.packings["b1"].codes(quantised.constants["b1"])).max() < 2**31 - 1
    assert np.allclose(quantised.constants["b1"], graph.constants["b1"], atol=1e-3)
    assert not quantised.constants["w1"][3].any()


def test_a_channel_of_nothing_is_nothing() -> None:
    """The least weights that single precision knows, beside no bias, leave no NaN."""
    graph = small_graph()
    graph.constants["w1"][3], graph.constants["b1"][3] = 1e-38, 0.0
    ranges = collect_ranges(graph, draw_samples())
    quantised = quantize(graph, choose_bits(graph, ranges, 8, 8))
    assert (quantised.packings["b1"].scale > 0).all()
    assert quantised.constants["b1"][3] == 0.0
    assert np.isfinite(quantised.constants["w1"]).all()


def test_a_weight_that_others_read_is_quantised_for_one_layer_alone() -> None:
    """The other reader of a shared constant keeps what it had."""
    weights = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="one"),
        helper.make_node("MatMul", ["a", "w"], ["y"], name="two"),
    ]
    graph = load_graph(make_model(nodes, {"x": [2, 4]}, ["y"], {"w": weights}))
    quantised = quantize(graph, {"two": LayerBits(weight=2)})
    assert np.array_equal(quantised.constants["w"], weights)
    (name,) = quantised.packings
    assert quantised.nodes[1].inputs == ("a", name)
    assert len(np.unique(quantised.constants[name])) <= 3 * 4


@pytest.mark.parametrize(
    ("op", "attrs", "shape", "axis"),
    [
        ("Gemm", {"transB": 1}, (5, 4), 0),
        ("Gemm", {}, (4, 5), 1),
        ("MatMul", {}, (4, 5), 1),
    ],
)
def test_scales_are_those_of_outputs(
    op: str, attrs: dict[str, int], shape: tuple[int, int], axis: int
) -> None:
    """Each output of a matrix product has a scale of its own, or all have one."""
    weights = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    nodes = [helper.make_node(op, ["x", "w"], ["y"], name="dense", **attrs)]
    graph = load_graph(make_model(nodes, {"x": [2, 4]}, ["y"], {"w": weights}))
    packing = quantize(graph, {"dense": LayerBits(weight=8)}).packings["w"]
    assert (packing.axis, packing.scale.shape) == (axis, (5,))
    one = quantize(graph, {"dense": LayerBits(weight=8, per_channel=False)}).packings["w"]
    assert (one.axis, one.scale.shape) == (None, ())


def test_affine_codes_cover_a_range() -> None:
    """Weights all above 0 have twice as fine steps where codes need not lie around 0."""
    graph = small_graph()
    graph.constants["w1"][...] = np.abs(graph.constants["w1"])
    around, over = (
        quantize(graph, {"first": LayerBits(weight=4, affine=affine)}) for affine in (False, True)
    )
    off = [np.abs(q.constants["w1"] - graph.constants["w1"]).mean() for q in (around, over)]
    assert off[1] < 0.6 * off[0]
    assert over.packings["w1"].limits == (0, 15)


@pytest.mark.parametrize(
    ("name", "entry", "words"),
    [
        ("nobody", LayerBits(weight=8), "'nobody' is no layer and no float32 input"),
        ("first", LayerBits(weight=5), "weight of 5 bits, allowed: 2, 3, 4, 6, 8"),
        ("first", LayerBits(activation=16), "activation of 16 bits, allowed: 2, 3, 4, 6, 8"),
        ("first", LayerBits(activation=8, low=2.0, high=1.0), "range 2 to 1"),
        ("first", LayerBits(activation=8, high=float("inf")), "range 0 to inf"),
        ("first", LayerBits(activation=8, low=-1e30), "range -1e+30 to 0, allowed: up to 1e+15"),
        ("first", LayerBits(weight=8, norm=0.0), "norm 0, allowed: 0.5 to 16"),
        ("first", LayerBits(weight=8, stretch=-1.0), "stretch -1, allowed: 0.001 to 1000"),
        ("mean", LayerBits(weight=8), "'mean' has no float32 weights"),
        ("x", LayerBits(weight=8), "'x' has no float32 weights"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(name: str, entry: LayerBits, words: str) -> None:
    """One line names the layer, what is wrong, and what is allowed."""
    with pytest.raises(PlanError) as caught:
        quantize(small_graph(), {name: entry})
    assert words in caught.value.message


def test_weights_that_are_not_finite_are_refused() -> None:
    """No range covers infinity."""
    graph = small_graph()
    graph.constants["w2"][0, 0, 0, 0] = np.inf
    with pytest.raises(PlanError, match="Weights 'w2' of layer 'second' are not finite"):
        quantize(graph, {"second": LayerBits(weight=8)})


def test_half_precision_is_left_alone() -> None:
    """A float16 network has nothing to quantise, and a table for it is refused."""
    weights = np.ones((4, 4), np.float16)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")]
    graph = load_graph(make_model(nodes, {"x": [1, 4]}, ["y"], {"w": weights}, dtype=10))
    with pytest.raises(PlanError, match="no float32 weights"):
        quantize(graph, {"dense": LayerBits(weight=8)})
    with pytest.raises(PlanError, match="makes no float32 tensor"):
        quantize(graph, {"dense": LayerBits(activation=8)})


@pytest.mark.slow
def test_mobilenet_in_eight_bits_is_near_its_float_self() -> None:
    """More bits, more signal: 30 dB and above with 8, and least squares beat the whole range."""
    graph = load_graph(build_model("mobilenet_v2", size=64))
    rng = np.random.default_rng(0)
    spec = graph.input_specs[0]
    samples = [{spec.name: rng.random(spec.shape, np.float32)} for _ in range(3)]
    ranges, reference = collect_ranges(graph, samples), Reference(graph, samples)

    def signal_db(weights: int, activations: int, clipping: Clipping = "mse") -> float:
        options = CodeOptions(clipping=clipping)
        bits = choose_bits(graph, ranges, weights, activations, options)
        return reference.signal_to_noise_db(bits)

    assert signal_db(8, 8) > 30
    assert signal_db(8, 8) > signal_db(6, 6) > signal_db(4, 4) > 5
    assert signal_db(8, 8) > signal_db(4, 8) > signal_db(4, 4)
    assert signal_db(4, 4) > signal_db(4, 4, "max") + 2
