"""The plain network divided by channels: what a policy's traffic is a share of, as a plan.

Behind every block each device adds its channels of the partial sums, and the others fetch them:
2(G-1) maps of features among G devices, as many as ring all-reduce moves.
"""

from __future__ import annotations

from collections.abc import Sequence

from partita.cluster import Cluster
from partita.errors import PlanError
from partita.graph import Graph
from partita.plan import Identity, Plan, Shard, Stage
from partita.regions import Region
from partita.separable.architecture import Architecture
from partita.separable.residual import Block


def divide_by_channels(
    graph: Graph, cluster: Cluster, architecture: Architecture, devices: Sequence[str]
) -> Plan:
    """The plan: paths of every block among devices in equal parts, the rest where it is read.

    Args:
        graph: Of :func:`partita.separable.graph.build_graph`, with one group.

    Raises:
        PlanError: The network is in groups, or paths cannot be shared out in equal parts.
    """
    if architecture.groups != 1 or architecture.cardinality % len(devices):
        raise PlanError(
            f"Network {architecture} cannot be divided by channels among {len(devices)} devices:"
            " allowed is one group, and a number of devices that divides its paths."
        )
    names = [layer.name for layer in graph.layers]
    stem = tuple(name for name in names if name.startswith("stem"))
    last = tuple(name for name in names if name.startswith("fc"))
    stages = [Stage("stem", stem, "everywhere", tuple(map(Shard, devices)))]
    for block in architecture.blocks():
        stages += _block_stages(graph, block, devices)
    stages.append(Stage("answer", last, "none", (Shard(cluster.requester),)))
    return Plan(
        model=Identity(graph.name, graph.hash),
        cluster=Identity(cluster.name, cluster.hash),
        stages=tuple(stages),
        planner="by channels",
    )


def _block_stages(graph: Graph, block: Block, devices: Sequence[str]) -> list[Stage]:
    """A block's paths, the sum over them by those who add its channels, and its shortcut."""

    def stage(*parts: str) -> Stage:
        layers = tuple(f"{block.name}.{part}.g0" for part in parts)
        made = graph.layer(layers[-1]).outputs[0]
        return Stage(f"{block.name}.{parts[-1]}", layers, "output_channels", shards(made))

    def shards(tensor: str) -> tuple[Shard, ...]:
        whole, count = Region.full(graph.tensors[tensor].shape), len(devices)
        width = whole.shape[1] // count
        boxes = (whole.with_axis(1, (n * width, (n + 1) * width)) for n in range(count))
        return tuple(Shard(d, {tensor: box}) for d, box in zip(devices, boxes, strict=True))

    paths = stage("conv1", "conv2")
    summed = graph.layer(f"{block.name}.conv3.g0")
    total = Stage(
        f"{block.name}.conv3",
        (summed.name,),
        "input_channels",
        paths.shards,
        shards(summed.outputs[0]),
    )
    if not block.projects:
        return [paths, total]
    return [stage("shortcut.conv"), paths, total, stage("add")]
