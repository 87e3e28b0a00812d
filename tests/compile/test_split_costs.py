"""The formulas of divided layers equal what accounts of real layouts count."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from onnx import helper

from partita.cluster import Cluster
from partita.compile import account_layout, build_layout
from partita.compile.account import DeviceAccount
from partita.compile.split_costs import (
    LayerShape,
    NodeCost,
    by_inputs,
    by_outputs,
    by_positions,
    communication,
    layer_shape,
    merge_adds,
    undivided,
)
from partita.graph import Graph, load_graph
from partita.plan import Identity, Plan, Shard, Stage
from partita.planners.drafts.draft import share_cuts
from partita.regions import Region
from tests.models import make_model

#: Unequal shares of two to five nodes.
SHARES = ((1, 1), (3, 1, 2), (2, 1, 4, 1, 3))


def conv_graph(
    inputs: int, outputs: int, size: tuple[int, ...], kernel: tuple[int, ...], **attrs: Any
) -> Graph:
    """Return one convolution; same padding unless ``pads`` are given."""
    groups = attrs.get("group", 1)
    weights = np.ones((outputs, inputs // groups, *kernel), np.float32)
    attrs.setdefault("pads", [k // 2 for k in kernel] * 2)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="layer", **attrs)
    return load_graph(make_model([node], {"x": (1, inputs, *size)}, ["y"], {"w": weights}))


def dense_graph(inputs: int, outputs: int) -> Graph:
    """Return one dense layer."""
    node = helper.make_node("Gemm", ["x", "w"], ["y"], name="layer")
    weights = np.ones((inputs, outputs), np.float32)
    return load_graph(make_model([node], {"x": (1, inputs)}, ["y"], {"w": weights}))


GRAPHS = {
    "dense": dense_graph(24, 18),
    "2-D, same": conv_graph(12, 10, (13, 11), (3, 3)),
    "2-D, 5 x 5, same": conv_graph(5, 6, (15, 12), (5, 5)),
    "2-D, not same": conv_graph(7, 9, (14, 14), (3, 3), pads=[0, 0, 0, 0]),
    "2-D, stride 2": conv_graph(6, 8, (17, 16), (3, 3), strides=[2, 2]),
    "2-D, dilated": conv_graph(5, 5, (16, 16), (3, 3), dilations=[2, 2], pads=[2, 2, 2, 2]),
    "3-D": conv_graph(5, 7, (6, 11, 10), (3, 3, 3)),
    "3-D, stride": conv_graph(5, 6, (6, 11, 10), (3, 3, 3), strides=[1, 2, 2]),
    "grouped": conv_graph(12, 18, (11, 11), (3, 3), group=3),
    "depthwise": conv_graph(12, 12, (11, 11), (3, 3), group=12),
}


def split(extent: int, shares: Sequence[float]) -> list[int]:
    """Return parts of an extent, in proportion to shares."""
    return [stop - start for start, stop in pairwise(share_cuts(shares, extent))]


def count(graph: Graph, axis: Any, boxes: Sequence[Region]) -> list[NodeCost]:
    """Return what layouts count of each node; one more device has input and answer, and merges."""
    names = [f"n{number}" for number in range(len(boxes))]
    cluster = Cluster.of(["home", *names])
    is_sum = axis == "input_channels"
    shards = tuple(
        Shard(name, {"x" if is_sum else "y": box}) for name, box in zip(names, boxes, strict=True)
    )
    merge = (Shard("home"),) if is_sum else ()
    stage = Stage("s", ("layer",), axis, shards, merge)
    identities = Identity(graph.name, graph.hash), Identity(cluster.name, cluster.hash)
    layout = build_layout(graph, Plan(*identities, (stage,), planner="by hand"), cluster)
    account = account_layout(graph, layout)
    streams = layout.program.streams
    counted = []
    for name in names:
        device = account.devices.get(name, DeviceAccount(0, 0, 0, 0))
        writes = sum(stream.box.size for stream in streams if stream.source == name)
        assert device.sent_bytes == 4 * writes
        counted.append(
            NodeCost(
                macs=round(device.macs),
                adds=round(device.macs) - writes,
                weights=round(device.weight_bytes / 4),
                reads=sum(stream.box.size for stream in streams if stream.target == name),
                writes=writes,
            )
        )
    assert account.exchanged_elements == sum(one.writes for one in counted) * is_sum
    return counted


def shape_of(graph: Graph) -> LayerShape:
    """Return the shape of the one layer."""
    shape = layer_shape(graph, graph.layers[0])
    assert shape is not None
    return shape


def boxes_along(graph: Graph, tensor: str, axis: int, parts: Sequence[int]) -> list[Region]:
    """Return consecutive boxes of a tensor."""
    whole = Region.full(graph.tensors[tensor].shape)
    ends = np.cumsum([0, *parts]).tolist()
    return [whole.with_axis(axis, span) for span in pairwise(ends)]


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("name", GRAPHS)
def test_formulas_equal_accounts(name: str, shares: tuple[int, ...]) -> None:
    """Channels, input channels and rows in unequal parts; groups are not divided along inputs."""
    graph = GRAPHS[name]
    shape = shape_of(graph)
    groups = shape.groups if shape.groups > 1 else shape.outputs
    parts = [part * shape.outputs // groups for part in split(groups, shares)]
    boxes = boxes_along(graph, "y", 1, parts)
    assert by_outputs(shape, parts) == count(graph, "output_channels", boxes)
    if shape.groups > 1:
        with pytest.raises(ValueError, match="along its groups"):
            by_inputs(shape, parts)
    else:
        parts = split(shape.inputs, shares)
        found = by_inputs(shape, parts)
        assert found == count(graph, "input_channels", boxes_along(graph, "x", 1, parts))
        adds = sum(node.adds for node in found) + merge_adds(shape, np.count_nonzero(parts))
        assert adds == undivided(shape).adds
    if shape.size:
        parts = split(shape.output_size[0], shares)
        whole = [[extent] for extent in shape.output_size[1:]]
        boxes = boxes_along(graph, "y", 2, parts)
        assert by_positions(shape, [parts, *whole]) == count(graph, "rows", boxes)


@pytest.mark.parametrize("name", [name for name in GRAPHS if "D" in name])
def test_grids_equal_accounts(name: str) -> None:
    """Tiles along all axes, in two and three dimensions."""
    graph = GRAPHS[name]
    shape = shape_of(graph)
    parts = [split(extent, (2, 1)) for extent in shape.output_size]
    whole = Region.full(graph.tensors["y"].shape)
    ends = [list(pairwise([0, *np.cumsum(one).tolist()])) for one in parts]
    boxes = [Region((*whole.bounds[:2], *box)) for box in product(*ends)]
    assert by_positions(shape, parts) == count(graph, "tiles", boxes)


def test_parts_follow_groups() -> None:
    """A group of six filters is not cut."""
    with pytest.raises(ValueError, match="follow the groups of 6"):
        by_outputs(shape_of(GRAPHS["grouped"]), [9, 9])


def test_one_node_has_no_overhead() -> None:
    """Undivided, a layer moves its input and its output once."""
    shape = shape_of(GRAPHS["2-D, same"])
    assert communication([undivided(shape)]) == (12 + 10) * 13 * 11
