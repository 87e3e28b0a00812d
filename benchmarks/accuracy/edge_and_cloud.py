"""The two devices of AUTO-SPLIT's Table 1, pictures that reach them, and what a plan does there."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from partita.cluster import Cluster, load_cluster
from partita.planners import Result

EDGE, CLOUD = "edge", "cloud"


def edge_and_cloud(uplink: float) -> Cluster:
    """Eyeriss and a TPU; answers stay in the cloud: their way back takes next to no time.

    Args:
        uplink: Mbit/s.
    """
    text = f"""
        [cluster]
        name = "table-1"
        requester = "{EDGE}"
        [[device]]
        name = "{EDGE}"
        kind = "eyeriss"
        [[device]]
        name = "{CLOUD}"
        kind = "tpu-v1"
        [[link]]
        from = "{EDGE}"
        to = "{CLOUD}"
        bandwidth = "{uplink} Mbit/s"
        [[link]]
        from = "{CLOUD}"
        to = "{EDGE}"
        bandwidth = "10000 Gbit/s"
        """
    return load_cluster(text.encode())


def take_bytes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with an input of bytes, as a camera sends them; its numbers stay as they are."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    name = graph.input[0].name
    for node in graph.node:
        node.input[:] = [f"{name}.float" if source == name else source for source in node.input]
    cast = helper.make_node("Cast", [name], [f"{name}.float"], "bytes", to=TensorProto.FLOAT)
    graph.node.insert(0, cast)
    graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    return changed


def describe_split(found: Result) -> str:
    """Where a plan computes: in the cloud, on the edge, or so many layers on the edge."""
    layers = {EDGE: 0, CLOUD: 0}
    for stage in found.plan.stages:
        layers[stage.shards[0].device] += len(stage.layers)
    alone = [device for device, count in layers.items() if count == sum(layers.values())]
    return alone[0] if alone else f"{layers[EDGE]} of {sum(layers.values())} layers on the edge"
