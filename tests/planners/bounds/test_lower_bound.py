"""The lower bound where options let devices compute that would else not."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from partita.cluster import Cluster, Device
from partita.graph import load_graph
from partita.planners import PlanOptions, find_plan
from tests.models import make_model
from tests.planners.fakes import FakeCost, make_chain, make_cost


@pytest.mark.parametrize("planner", ["best", "cut", "single"])
def test_layers_pinned_to_a_requester_that_does_not_compute(planner: str) -> None:
    """What runs there for the sake of a kept tensor counts: the bound is not above the plan."""
    cluster = Cluster.of([Device("d0", computes=False), Device("d1")], bandwidth_bytes_per_s=1e5)
    cost = FakeCost(make_chain(2), cluster, {"d0": 1e8, "d1": 1e6})
    options = PlanOptions(keep_on={"t0": "d0"})
    result = find_plan(cost, planner=planner, options=options)
    assert result.lower_bound_s <= result.latency_s * (1 + 1e-9)


def test_a_core_that_makes_its_last_state_alone() -> None:
    """A recurrent layer whose first output nobody wants has its bound like others."""
    rng = np.random.default_rng(0)
    weights = {
        name: rng.standard_normal((1, 32, inner)).astype(np.float32)
        for name, inner in (("w", 6), ("r", 8))
    }
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["", "last"], hidden_size=8),
        helper.make_node("Softmax", ["last"], ["y"]),
    ]
    graph = load_graph(make_model(nodes, {"x": (5, 2, 6)}, ["y"], weights))
    result = find_plan(make_cost(graph, 1e3, 1e3, bandwidth=1e9), planner="cut")
    assert 0 < result.lower_bound_s <= result.latency_s * (1 + 1e-9)


def test_a_last_layer_with_a_sequence_inside() -> None:
    """What a layer that runs whole makes inside of it has no size that anybody asks for."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"]),
        helper.make_node("SequenceConstruct", ["a", "x"], ["s"]),
        helper.make_node("SequenceLength", ["s"], ["y"]),
    ]
    model = make_model(nodes, {"x": (4, 64)}, ["y"], output_dtype=TensorProto.INT64)
    result = find_plan(make_cost(load_graph(model), 1e3, 1e3, bandwidth=1e9), planner="cut")
    assert 0 < result.lower_bound_s <= result.latency_s * (1 + 1e-9)
