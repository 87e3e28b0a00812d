"""What "Collaborative Execution of Deep Neural Networks on Internet of Things Devices" runs on.

Raspberry Pi 3s on one switch (section 6): 94.1 Mbit/s at each one's port, 0.4 ms from client to
client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from partita.cluster import Cluster, Link, find_entry
from partita.cluster.model import Device
from partita.cost import CostModel
from partita.graph import Graph, load_graph
from partita.plan import Identity, Plan, Shard, SplitAxis, Stage
from partita.regions import Region
from partita.reproduce.figure import Paper
from partita.simulation import latency_s
from partita.zoo.builder import Builder

PAPER = Paper("collaborative", ("real",))
#: The Pi 3 as measured with a present engine, and as the paper's sentences have it.
KINDS = ("raspberry-pi-3", "raspberry-pi-3-keras")
PORT_BYTES_PER_S = 94.1e6 / 8
LATENCY_S = 0.4e-3
#: Stands for the paper's initial sender and final receiver: a port's directions do not meet.
ENDS = "ends"
INPUT, OUTPUT = "input", "output"


@dataclass(frozen=True)
class Split:
    """A way to divide a layer.

    Attributes:
        extent: Of the axis that is divided: of the layer's output, of its input for sums.
        axis: Number of that axis.
    """

    kind: SplitAxis
    axis: int
    extent: int


def dense_graph(inputs: int, outputs: int, *, bias: bool = True) -> Graph:
    """One dense layer with activation, from (1, inputs) to (1, outputs)."""
    builder = Builder("dense")
    x = builder.dense(builder.add_input(INPUT, (1, inputs)), "layer", outputs, bias=bias)
    return load_graph(builder.finish(builder.relu(x, OUTPUT)))


def conv_graph(
    extent: Sequence[int], depth: int, filters: int, kernel: int, *, bias: bool = True
) -> Graph:
    """One convolution with activation that keeps the extent of (1, depth, *extent)."""
    builder = Builder("conv")
    x = builder.add_input(INPUT, (1, depth, *extent))
    x = builder.conv(x, "layer", filters, kernel=kernel, bias=bias)
    return load_graph(builder.finish(builder.relu(x, OUTPUT)))


def make_fleet(kind: str, workers: int, *, swaps: bool = True, ports: bool = True) -> Cluster:
    """The sender and receiver, and so many workers, all of one kind and on one switch.

    Args:
        swaps: Whether a worker pays for what it cannot hold.
        ports: Whether all that a device sends shares its port; else each pair has a cable.
    """
    names = [ENDS, *(f"worker-{number}" for number in range(1, workers + 1))]
    entry = find_entry(kind)
    devices = [
        Device(
            name,
            kind=kind,
            memory_bytes=entry.memory_bytes,
            port_bytes_per_s=PORT_BYTES_PER_S if ports else None,
            swap_bytes_per_s=entry.swap_bytes_per_s if swaps and name != ENDS else None,
        )
        for name in names
    ]
    links = [Link(a, b, PORT_BYTES_PER_S, LATENCY_S) for a in names for b in names if a != b]
    return Cluster.of(devices, links=links)


def divide(graph: Graph, cluster: Cluster, split: Split | None) -> Plan:
    """The plan of the one layer: on the first worker, or divided over all of them."""
    workers = [name for name in cluster.names if name != ENDS]
    shards: tuple[Shard, ...] = (Shard(workers[0]),)
    if split is not None:
        tensor = INPUT if split.kind == "input_channels" else OUTPUT
        whole = Region.full(graph.tensors[tensor].shape)
        spans = even_spans(split.extent, len(workers))
        shards = tuple(
            Shard(worker, {tensor: whole.with_axis(split.axis, span)})
            for worker, span in zip(workers, spans, strict=True)
        )
    return one_stage(graph, cluster, split.kind if split else "none", shards)


def one_stage(graph: Graph, cluster: Cluster, axis: SplitAxis, shards: Sequence[Shard]) -> Plan:
    """The plan of one stage; sums are merged where the answer is wanted."""
    merge = (Shard(ENDS),) if axis == "input_channels" else ()
    (layer,) = graph.layers
    return Plan(
        Identity(graph.name, graph.hash),
        Identity(cluster.name, cluster.hash),
        (Stage("layer", (layer.name,), axis, tuple(shards), merge),),
        planner="by hand",
    )


def even_spans(extent: int, parts: int) -> list[tuple[int, int]]:
    """Consecutive intervals as even as can be, the larger ones first.

    >>> even_spans(8, 3)
    [(0, 3), (3, 6), (6, 8)]
    """
    return list(pairwise(-(-extent * part // parts) for part in range(parts + 1)))


def request_s(graph: Graph, cluster: Cluster, split: Split | None) -> float:
    """The seconds of one request, from its leaving the sender to its answer at the receiver."""
    cost = CostModel(graph, cluster)
    layout = cost.layout(divide(graph, cluster, split))
    return latency_s(layout.program, cost.price(layout))
