"""Profiles in two precisions: what layers take on floats, and with 8 bits on integer kernels."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from partita.cluster import Cluster
from partita.cost import CostModel
from partita.errors import ModelError
from partita.graph import Graph, load_graph
from partita.graph.quantised import with_kernels
from partita.profile import Profile, dump_profile, load_profile, measure_profile
from partita.profile.integer import add_integer_layers, eight_bits
from partita.quantisation import quantize
from partita.regions import LayerBits, Region
from tests.cost.fakes import WHOLE_S, conv_graph, straight_profile
from tests.profile.test_measure import QUICK, small_graph
from tests.quantised_models import residual_network


def test_both_precisions_are_measured() -> None:
    """Every layer has both, and the layer that rounds the input; the file keeps them."""
    graph = small_graph()
    profile = measure_profile(graph, replace(QUICK, integer=True))
    assert set(profile.integer) == {*profile.layers, "x.quantize"}
    assert (profile.precision, profile.model_hash) == ("float32", graph.hash)
    assert load_profile(dump_profile(profile)) == profile
    kernels = eight_bits(graph)
    assert kernels.integer
    assert kernels.bits["first"].low == 0  # the engine joins the ReLU before it rounds
    assert (profile.sum_of_integer_layers_s or 0) > 0
    assert measure_profile(graph, QUICK).sum_of_integer_layers_s is None


def test_a_quantised_model_has_one_precision() -> None:
    """It is measured as it is; beside floats there is nothing to measure."""
    with pytest.raises(ModelError, match="it came quantised, and its profile says so"):
        eight_bits(load_graph(residual_network()))


def twofold(graph: Graph) -> Profile:
    """Return a profile whose layers take a quarter of their time on integer kernels."""
    profile = straight_profile(graph)
    integer = straight_profile(eight_bits(graph))
    runs = msgspec.structs.replace(integer.runs, factor=0.25)
    return add_integer_layers(profile, msgspec.structs.replace(integer, runs=runs))


def seconds(cost: CostModel) -> list[float]:
    """Return what the convolutions take, whole."""
    box = Region.full(cost.graph.tensors["t1"].shape)
    names = [layer.name for layer in cost.graph.layers if layer.kind == "Conv"]
    return [cost.layer_s("here", n, {cost.graph.layer(n).outputs[0]: box}) for n in names]


def test_layers_are_priced_by_the_kernels_they_run_on() -> None:
    """Of three layers two have bits and codes to read: these take an integer kernel's time."""
    graph, cluster = conv_graph(layers=3), Cluster.of(["here"])
    entry = LayerBits(weight=4, activation=8, low=-1, high=1)
    bits = {"t0": LayerBits(activation=8, low=-1, high=1), "c0": entry, "c1": entry}
    quantised = quantize(graph, bits)
    cost = CostModel(graph, cluster, profiles=twofold(graph))
    assert seconds(cost) == pytest.approx([WHOLE_S] * 3)
    assert seconds(cost.of(quantised)) == pytest.approx([WHOLE_S] * 3)
    integer = cost.of(with_kernels(quantised, integer=True))
    assert seconds(integer) == pytest.approx([WHOLE_S / 4, WHOLE_S / 4, WHOLE_S])
    assert integer.on_floats == []
    alone = quantize(graph, {"c1": entry})  # what it reads is no codes: the engine joins nothing
    assert seconds(cost.of(with_kernels(alone, integer=True))) == pytest.approx([WHOLE_S] * 3)


def test_a_profile_of_floats_alone_is_said() -> None:
    """Integer kernels are then priced as those of floats, and the cost model names the device."""
    graph, cluster = conv_graph(), Cluster.of(["here"])
    cost = CostModel(eight_bits(graph), cluster, profiles=straight_profile(graph))
    assert cost.on_floats == ["here"]
    assert seconds(cost) == pytest.approx([WHOLE_S] * 3)
