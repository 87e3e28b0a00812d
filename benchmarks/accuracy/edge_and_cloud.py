"""The two devices of AUTO-SPLIT's Table 1, pictures that reach them, and what a plan does there."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
from onnx import TensorProto, helper

from partita.cluster import Cluster, load_cluster
from partita.compile import planned_graph
from partita.graph import Graph
from partita.plan import Plan
from partita.units import format_count

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


def describe_split(graph: Graph, plan: Plan) -> str:
    """Where a plan computes: in the cloud, on the edge, or so many layers there, and what crosses.

    Args:
        graph: The model's, not quantised.
    """
    places = {name: stage.shards[0].device for stage in plan.stages for name in stage.layers}
    on_edge = [name for name, device in places.items() if device == EDGE]
    if len(on_edge) in (0, len(places)):
        return EDGE if on_edge else CLOUD
    quantised, crossing = planned_graph(graph, plan), set[str]()
    for layer in quantised.layers:
        if places[layer.name] == CLOUD:
            makers = {tensor: quantised.producer(tensor) for tensor in layer.inputs}
            crossing |= {t for t, one in makers.items() if one is None or one.name in on_edge}
    widths = Counter(_bits(quantised, tensor) for tensor in crossing)
    sent = ", ".join(
        f"{format_count(count, 'tensor')} in {bits} bits" for bits, count in sorted(widths.items())
    )
    return f"{len(on_edge)} of {len(places)} layers on the edge, {sent} to the cloud"


def _bits(graph: Graph, tensor: str) -> int:
    """Bits of each number of a tensor on the wire."""
    if tensor in graph.packings:
        return graph.packings[tensor].bits
    return 8 * np.dtype(graph.tensors[tensor].dtype).itemsize
