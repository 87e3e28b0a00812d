"""Accounts of layouts: what devices multiply, hold and send, against counts by hand and runs."""

from __future__ import annotations

from random import Random

import msgspec
import numpy as np
import pytest
from benchmarks.uniform import UniformOptions, plan_uniform
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from partita.compile import account_layout, build_layout
from partita.graph import Graph, load_graph
from partita.plan import Shard, Stage
from partita.regions import Region
from partita.simulation import simulate
from tests.compile.samples import halves, make_plan, pair, skip_graph, small_graph, whole
from tests.laws.random_plans import draw_cluster, draw_plan
from tests.models import make_model
from tests.planners.fakes import FakeCost, make_chain, make_gated, make_residual

#: Multiply-accumulates of one convolution of the small networks: 2 x 8 x 4 outputs, 18 each.
_CONV = 64 * 18


def test_two_halves_by_hand() -> None:
    """Halos of one row, the image's part and the mean's rows are all that is sent."""
    graph, cluster = small_graph(), pair()
    account = account_layout(graph, build_layout(graph, halves(graph, cluster), cluster))
    left, right = account.devices["left"], account.devices["right"]
    assert (left.macs, right.macs) == (_CONV, _CONV)
    row = 2 * 4
    assert left.sent_bytes == 4 * (5 * row + row)  # five rows of the image, one of ``a``
    assert right.sent_bytes == 4 * (row + 4 * row)  # one row of ``a``, four of ``b``
    assert account.exchanged_elements == 2 * row + 4 * row
    assert account.weight_bytes == 4 * 2 * 36 * 2
    assert account.sent_bytes == left.sent_bytes + right.sent_bytes


def test_fused_rows_are_counted_twice() -> None:
    """What is computed on both devices counts on both."""
    graph, cluster = skip_graph(), pair()
    plan = make_plan(graph, cluster, whole("s", ("first", "second", "third"), "left", "right",
                                           axis="everywhere"))  # fmt: skip
    account = account_layout(graph, build_layout(graph, plan, cluster))
    assert account.macs == 2 * graph.macs == 6 * _CONV


def test_replicas_share_the_requests() -> None:
    """Of two replicas each computes half of the requests; both hold the weights."""
    graph, cluster = skip_graph(), pair()
    plan = make_plan(graph, cluster, whole("s", ("first", "second", "third"), "left", "right",
                                           axis="replica"))  # fmt: skip
    account = account_layout(graph, build_layout(graph, plan, cluster))
    assert [one.macs for one in account.devices.values()] == [graph.macs / 2] * 2
    assert account.weight_bytes == 2 * 3 * 36 * 4
    assert account.sent_bytes == (64 + 64) * 4 / 2
    assert account.exchanged_elements == 0


def test_replicas_count_their_shares_of_requests() -> None:
    """With shares of 3 and 1 the second device computes, and is sent, a quarter."""
    graph, cluster = skip_graph(), pair()
    stage = whole("s", ("first", "second", "third"), "left", "right", axis="replica")
    plan = make_plan(graph, cluster, msgspec.structs.replace(stage, shares=(3, 1)))
    account = account_layout(graph, build_layout(graph, plan, cluster))
    macs = [one.macs for one in account.devices.values()]
    assert macs == [graph.macs * 3 / 4, graph.macs / 4]
    assert account.sent_bytes == (64 + 64) * 4 / 4


def test_partial_sums_are_one_layer_together() -> None:
    """Parts of the input channels add up to the layer's work, and merging adds none."""
    graph = make_chain(3, seed=3)
    cluster = draw_cluster(Random(1))
    shares = tuple(1.0 + number for number in range(len(cluster.names)))
    plan = plan_uniform(graph, cluster, UniformOptions("input_channels", shares))
    assert any(stage.merge for stage in plan.stages)
    assert account_layout(graph, build_layout(graph, plan, cluster)).macs == graph.macs


@pytest.mark.parametrize("transposed", [False, True])
def test_groups_that_a_cut_divides_are_computed_whole(transposed: bool) -> None:
    """Of two groups of four filters the first six take both; the last two take a half of one."""
    weights = np.ones((8, 4, 3, 3), np.float32)
    node = helper.make_node("ConvTranspose" if transposed else "Conv", ["x", "w"], ["y"], name="c",
                            pads=[1] * 4, group=2)  # fmt: skip
    graph = load_graph(make_model([node], {"x": [1, 8, 6, 6]}, ["y"], {"w": weights}))
    whole_box, cluster = Region.full((1, 8, 6, 6)), pair()
    shards = [
        Shard(device, {"y": whole_box.with_axis(1, span)})
        for device, span in (("left", (0, 6)), ("right", (6, 8)))
    ]
    plan = make_plan(graph, cluster, Stage("s", ("c",), "output_channels", tuple(shards)))
    layout = build_layout(graph, plan, cluster)
    left, right = account_layout(graph, layout).devices.values()
    assert (left.macs, right.macs) == (graph.macs, graph.macs / 4)
    assert (left.weight_bytes, right.weight_bytes) == (weights.nbytes, weights.nbytes / 4)


_GRAPHS = [make_chain(4, seed=2), make_residual(3), make_gated()]


@settings(deadline=None, max_examples=30)
@given(rng=st.randoms(use_true_random=False), graph=st.sampled_from(_GRAPHS))
def test_what_is_sent_is_what_a_run_sends(rng: Random, graph: Graph) -> None:
    """On random plans bytes sent are those of the simulated links; no plan does less work."""
    cluster = draw_cluster(rng)
    plan = draw_plan(rng, graph, cluster)
    cost = FakeCost(graph, cluster, dict.fromkeys(cluster.names, 1e8))
    layout = build_layout(graph, plan, cluster)
    account = account_layout(graph, layout)
    if layout.program.routes:
        return
    report = simulate(layout.program, cost.price(layout), requests=1)
    assert account.sent_bytes == sum(use.bytes for use in report.links)
    assert account.macs >= graph.macs - len(layout.works)
