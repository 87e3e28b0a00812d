"""The zoo's models divided by rows answer what they answer whole."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.uniform import UniformOptions, plan_uniform

from partita.cluster import Cluster, load_cluster
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.exactness.compare import TOLERANCE, check_exactness
from partita.graph import load_graph
from partita.graph.splits import row_axes
from partita.plan import SplitAxis
from partita.planners import PlanOptions, find_plan
from partita.zoo import build_model

SHARES = (1.0, 3.0, 2.0)
#: One of each family that came with a paper, at a size that keeps
#: every kind of layer; None where the model allows little less than its own size.
SIZES = {
    "squeezenet": 64,
    "mobilenet_v1": 64,
    "voxelnet": 32,
    "lowlight_resnet": 32,
    "inception_v3": 139,
    "densenet201": 96,
    "yolov2": 128,
    "openpose": 96,
    "ssd_vgg16": None,
    "ssd_resnet50": None,
    "resnet152": 96,
    "alexnet": 95,
    "xception": 96,
    "c3d": 48,
    "resnet18": 64,
    "resnext50_32x4d": 64,
    "googlenet": 64,
    "mnasnet1_0": 64,
    "yolov3": 64,
    "yolov3_spp": 64,
    "yolov3_tiny": 64,
    "faster_rcnn": 64,
}
FAST = ("squeezenet", "mobilenet_v1", "voxelnet", "lowlight_resnet", "yolov3_tiny")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in SIZES]
)
def test_rows_equal_the_whole(name: str) -> None:
    """Three unequal row shares of every stage equal ONNX Runtime on the whole model."""
    _check_divided(name, SIZES[name], "rows")


def _check_divided(name: str, size: int | None, mode: SplitAxis) -> None:
    graph = load_graph(build_model(name, size=size), name=name)
    cluster = Cluster.of(["a", "b", "c"])
    plan = plan_uniform(graph, cluster, UniformOptions(mode, SHARES))
    assert {"rows", "tiles", "output_channels"} & {stage.axis for stage in plan.stages} == {mode}
    (source,) = graph.inputs
    image = np.random.default_rng(0).standard_normal(graph.tensors[source].shape, np.float32)
    found = check_exactness(graph, compile_plan(graph, plan, cluster), [{source: image}])
    assert set(graph.outputs) <= {one.tensor for one in found}
    assert max(one.relative for one in found) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["tiles", "output_channels"])
def test_video_divides_as_pictures_do(mode: SplitAxis) -> None:
    """C3D in tiles of height and width, and by output channels, equals C3D whole."""
    _check_divided("c3d", 48, mode)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alexnet", "xception", "c3d"])
def test_fleets_can_be_planned(name: str) -> None:
    """`best` finds a plan of each network for unequal boards."""
    graph = load_graph(build_model(name, size=SIZES[name]), name=name)
    cluster = load_cluster("scenario:DA-50")
    result = find_plan(CostModel(graph, cluster), options=PlanOptions(most_s=1.0))
    assert result.lower_bound_s <= result.latency_s < float("inf")


def test_rows_of_a_grid_are_its_height() -> None:
    """VoxelNet's rows are those of the ground plane in 3-D as in 2-D, and no layer ends them."""
    graph = load_graph(build_model("voxelnet", size=48))
    axes = row_axes(graph)
    ranks = {tensor: len(graph.tensors[tensor].shape) for tensor in graph.tensors}
    layers = [tensor for layer in graph.layers for tensor in layer.outputs]
    assert {axes.axis(tensor) for tensor in layers if ranks[tensor] == 5} == {3}
    assert {axes.axis(tensor) for tensor in layers if ranks[tensor] == 4} == {2}
    options = UniformOptions("rows", SHARES, volume=1)
    plan = plan_uniform(graph, Cluster.of(["a", "b", "c"]), options)
    shards = [shard for stage in plan.stages for shard in stage.shards]
    assert all(
        box.bounds[axis] == (0, graph.tensors[tensor].shape[axis])
        for shard in shards
        for tensor, box in shard.boxes.items()
        for axis in range(len(box.bounds))
        if axis != axes.axis(tensor)
    )
