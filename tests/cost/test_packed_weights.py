"""Quantised networks' costs: profiles of either graph, and loading of packed weights."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from onnx import helper

from partita.cluster import Cluster
from partita.compile import account_layout
from partita.cost import CostModel
from partita.graph import Graph, load_graph
from partita.graph.quantised import with_kernels
from partita.plan import Identity, Plan, Shard, Stage
from partita.profile import RunCost, WireCost
from partita.quantisation import quantize
from partita.regions import LayerBits, Region
from tests.cost.fakes import conv_graph, straight_profile
from tests.models import make_model


@pytest.fixture(name="floats")
def _floats() -> Graph:
    return conv_graph(layers=2)


def wide_graph() -> Graph:
    """Return a convolution of 4 to 32 channels: 1,152 weights, which lie apart from the graph."""
    weights = np.random.default_rng(0).standard_normal((32, 4, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["t0", "w"], ["t1"], name="c0")
    return load_graph(make_model([node], {"t0": (1, 4, 16, 16)}, ["t1"], {"w": weights}))


def quantised(graph: Graph, bits: int) -> Graph:
    """Return the graph with an input of 8 bits and weights of ``bits``."""
    entry = LayerBits(weight=bits, activation=8, low=-1, high=1)
    rounded = LayerBits(activation=8, low=-1, high=1)
    weights = {layer.name: entry for layer in graph.layers}
    return quantize(graph, {graph.inputs[0]: rounded} | weights)


def test_profiles_of_either_graph_hold(floats: Graph) -> None:
    """One of the float graph serves; one of the quantised graph itself is taken as measured."""
    graph, cluster = with_kernels(quantised(floats, 8), integer=True), Cluster.of(["here"])
    box = {"t1": Region.full(graph.tensors["t1"].shape)}
    usual = CostModel(graph, cluster, profiles=straight_profile(floats))
    own = straight_profile(graph)
    halved = {
        name: msgspec.structs.replace(
            layer,
            samples=tuple(msgspec.structs.replace(s, seconds=s.seconds / 2) for s in layer.samples),
        )
        for name, layer in own.layers.items()
    }
    fast = CostModel(graph, cluster, profiles=msgspec.structs.replace(own, layers=halved))
    assert fast.layer_s("here", "c0", box) == pytest.approx(usual.layer_s("here", "c0", box) / 2)


@pytest.mark.parametrize(("bits", "stored"), [(8, 1152), (4, 576), (3, 432)])
def test_stored_and_loaded_bytes_are_different_numbers(bits: int, stored: int) -> None:
    """Four bytes a weight once loaded; in the store its bits, and 8 bytes for each scale."""
    floats = wide_graph()
    graph, cluster = quantised(floats, bits), Cluster.of(["here"])
    layers = tuple(layer.name for layer in graph.layers)
    plan = Plan(
        Identity("m", graph.hash),
        Identity("c", cluster.hash),
        (Stage("s", layers, "none", (Shard("here"),)),),
        planner="by hand",
        bits=dict(graph.bits),
    )
    runs = RunCost(load_s_per_byte=1e-6)
    profile = msgspec.structs.replace(straight_profile(floats, runs), wires={})
    model = CostModel(graph, cluster, profiles=profile)
    layout = model.layout(plan)
    (device,) = account_layout(graph, layout).devices.values()
    assert device.weight_bytes >= 4 * 1152
    saved = device.weight_bytes - device.stored_bytes
    assert saved == pytest.approx(4 * 1152 - stored - 8 * 32, abs=1)
    (plain,) = model.price(layout).load_s.values()
    packed = msgspec.structs.replace(profile, wires={"uint4": WireCost(0, 0, 0, 1e-6)})
    (slower,) = CostModel(graph, cluster, profiles=packed).price(layout).load_s.values()
    assert slower == pytest.approx(2 * plain)
