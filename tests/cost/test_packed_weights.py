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
from partita.profile import Profile, RunCost, WireCost
from partita.quantisation import quantize
from partita.regions import LayerBits, Region
from partita.simulation import predict
from tests.cost.fakes import WHOLE_S, conv_graph, straight_profile
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


def test_rounding_on_floats_costs_what_the_float_profile_lacks(floats: Graph) -> None:
    """Passes over what is rounded; conversions out of the engine's layout and into it again."""
    graph, cluster = quantised(floats, 4), Cluster.of(["here"])
    runs = RunCost(copy_s_per_byte=1e-6, enter_s_per_byte=1e-4, leave_s_per_byte=1e-5)
    profile = straight_profile(floats, runs)
    laid = {n: msgspec.structs.replace(one, blocked=True) for n, one in profile.layers.items()}
    profile = msgspec.structs.replace(profile, layers=laid)
    tensor_bytes = 4 * 4 * 16 * 16  # of t0, t1 and t2 alike

    def whole_s(graph: Graph, profile: Profile) -> float:
        cost = CostModel(graph, cluster, profiles=profile)
        return predict(cost, whole_plan(graph, cluster)).mean_s

    # The input's own layer copies it, both convolutions' answers are rounded, and the first's
    # leaves the layout, as the last's always does. Four channels are read as they are.
    more_s = (2 * 1e-6 + 2 * 2.5e-6 + 1e-5) * tensor_bytes
    assert whole_s(graph, profile) - whole_s(floats, profile) == pytest.approx(more_s)
    own = {layer.name: profile.layers["c0"] for layer in graph.layers}
    seen = msgspec.structs.replace(profile, model_hash=graph.hash, layers=own)
    in_layers_s = whole_s(graph, msgspec.structs.replace(seen, runs=RunCost()))
    assert in_layers_s == pytest.approx(3 * WHOLE_S)


def whole_plan(graph: Graph, cluster: Cluster) -> Plan:
    """Return the plan of one stage on the cluster's only device."""
    layers = tuple(layer.name for layer in graph.layers)
    (device,) = cluster.devices
    return Plan(
        Identity("m", graph.hash),
        Identity("c", cluster.hash),
        (Stage("s", layers, "none", (Shard(device.name),)),),
        planner="by hand",
        bits=dict(graph.bits),
    )


@pytest.mark.parametrize(("bits", "stored"), [(8, 1152), (4, 576), (3, 432)])
def test_stored_and_loaded_bytes_are_different_numbers(bits: int, stored: int) -> None:
    """Four bytes a weight once loaded; in the store its bits, and 8 bytes for each scale."""
    floats = wide_graph()
    graph, cluster = quantised(floats, bits), Cluster.of(["here"])
    plan = whole_plan(graph, cluster)
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
