"""VGG-16's convolutional part at full size, cheap to load: its dense layers are left out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from benchmarks.uniform import split_extent
from onnx import helper

from partita.cluster import Cluster
from partita.compile import Layout, build_layout, work_builder
from partita.graph import Graph, load_graph
from partita.plan import Identity, Plan, Shard, Stage
from partita.regions import Region
from partita.zoo import build_model


@lru_cache(maxsize=4)
def vgg16_features(height: int = 224) -> Graph:
    """Return the 13 convolutions and 5 pools for an image of ``height`` x 224."""
    model = build_model("vgg16", size=32)
    ends = [k for k, node in enumerate(model.graph.node) if node.op_type == "MaxPool"]
    del model.graph.node[ends[-1] + 1 :], model.graph.output[:], model.graph.value_info[:]
    name = model.graph.node[-1].output[0]
    model.graph.output.append(helper.make_tensor_value_info(name, 1, None))
    image = helper.make_tensor_value_info(model.graph.input[0].name, 1, (1, 3, height, 224))
    model.graph.input[0].CopyFrom(image)
    return load_graph(model, name="vgg16-features")


def input_rows(graph: Graph, rows: tuple[int, int]) -> tuple[int, int]:
    """Return the input rows that these rows of the last pool's output come from."""
    (output,) = graph.outputs
    box = Region.full(graph.tensors[output].shape).with_axis(2, rows)
    names = tuple(layer.name for layer in graph.layers)
    ((_, needed),) = work_builder(graph).stage(names, {output: box}).inputs
    return needed.bounds[2]


def divide_rows(graph: Graph, volumes: Sequence[Sequence[str]], parts: int) -> Layout:
    """Return the layout of consecutive stages, each divided into equal parts of its rows."""
    names = [f"d{number}" for number in range(parts)]
    cluster = Cluster.of(names)
    builder = work_builder(graph)
    stages = []
    for number, layers in enumerate(volumes):
        (tensor,) = builder.stage_outputs(layers)
        whole = Region.full(graph.tensors[tensor].shape)
        spans = split_extent(whole.shape[2], [1] * parts)
        boxes = [{tensor: whole.with_axis(2, span)} for span in spans]
        shards = tuple(Shard(name, box) for name, box in zip(names, boxes, strict=True))
        stages.append(Stage(f"v{number}", tuple(layers), "rows", shards))
    identities = Identity(graph.name, graph.hash), Identity(cluster.name, cluster.hash)
    return build_layout(graph, Plan(*identities, tuple(stages), planner="acceptance"), cluster)


def volumes_ending_at(graph: Graph, kind: str) -> list[list[str]]:
    """Return the layers in consecutive runs.

    Args:
        graph: The network.
        kind: ``Conv``: a run per convolution, with the pool after it; ``MaxPool``: a run per pool.
    """
    volumes: list[list[str]] = [[]]
    for before, layer in zip((None, *graph.layers), graph.layers, strict=False):
        starts = layer.kind == "Conv" if kind == "Conv" else before and before.kind == "MaxPool"
        if starts and volumes[-1]:
            volumes.append([])
        volumes[-1].append(layer.name)
    return volumes
