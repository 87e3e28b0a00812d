"""Plans that divide everything along one axis: the material of exactness checks, not of speed.

Each stage that can be divided along the axis is, in the same unequal shares; what cannot be divided
runs whole on one device after the other, so that transfers of every kind occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product

from partita.cluster import Cluster
from partita.compile import WorkBuilder, work_builder
from partita.graph import Graph
from partita.graph.layer import Layer
from partita.graph.splits import row_axes
from partita.plan import Identity, Plan, Shard, SplitAxis, Stage
from partita.planners import DraftStage
from partita.planners.drafts.channel_pairs import ChannelPair, channel_pairs
from partita.planners.drafts.draft import DraftLowering
from partita.planners.drafts.layer_order import LayerOrder
from partita.regions import Interval, Region

UNIFORM_AXES: tuple[SplitAxis, ...] = (
    "rows",
    "tiles",
    "output_channels",
    "input_channels",
    "none",
)


@dataclass(frozen=True)
class UniformOptions:
    """How to divide.

    Attributes:
        axis: Split axis of every stage that can be divided; ``none`` for whole-stage cuts.
        shares: Relative share of each device, in the cluster's order.
        volume: Layers per stage, for ``rows`` and ``tiles``.
    """

    axis: SplitAxis
    shares: tuple[float, ...]
    volume: int = 6


def plan_uniform(graph: Graph, cluster: Cluster, options: UniformOptions) -> Plan:
    """A plan that divides every stage it can along one axis.

    Args:
        cluster: At least as many devices as shares.
    """
    builder = work_builder(graph)
    devices = cluster.names[: len(options.shares)]
    stages: list[Stage] = []
    for number, layers in enumerate(_groups(builder, options)):
        name = f"s{number}"
        stage = _divide(builder, (name, layers), devices, options)
        if stage is None:
            only = Shard(devices[number % len(devices)])
            stage = Stage(name, layers, "none", (only,))
        stages.append(stage)
    return Plan(
        Identity(graph.name, graph.hash),
        Identity(cluster.name, cluster.hash),
        tuple(stages),
        planner="uniform",
    )


def plan_pairs(graph: Graph, cluster: Cluster, shares: Sequence[float]) -> Plan:
    """A plan that divides every pair of layers that one sum joins; all else runs everywhere.

    Args:
        cluster: As many devices as shares.
    """
    outline, names = LayerOrder(graph), cluster.names
    stages: list[DraftStage] = []
    chosen: list[ChannelPair] = []
    for pair in sorted(channel_pairs(outline), key=lambda one: (one.start - one.last, -one.groups)):
        if all(pair.last < one.start or one.last < pair.start for one in chosen):
            chosen.append(pair)
    reached = 0
    for pair in sorted(chosen, key=lambda one: one.start):
        if reached < pair.start:
            stages.append(DraftStage(reached, pair.start, "everywhere", names))
        stages += pair.stages(names, list(shares), names)
        reached = pair.last + 1
    if reached < len(outline):
        stages.append(DraftStage(reached, len(outline), "everywhere", names))
    lowered = DraftLowering(outline).stages(tuple(stages))
    identities = Identity(graph.name, graph.hash), Identity(cluster.name, cluster.hash)
    return Plan(*identities, lowered, planner="pairs")


def _groups(builder: WorkBuilder, options: UniformOptions) -> list[tuple[str, ...]]:
    """The layers of each stage, in order."""
    layers = builder.graph.layers
    if options.axis in ("output_channels", "input_channels"):
        return [(layer.name,) for layer in layers]
    if options.axis == "none":
        ends = split_extent(len(layers), options.shares)
        return [tuple(layer.name for layer in layers[a:b]) for a, b in ends if b > a]
    groups: list[list[Layer]] = []
    for layer in layers:
        kind = _is_spatial(builder.graph, layer)
        full = not groups or len(groups[-1]) >= options.volume
        if full or _is_spatial(builder.graph, groups[-1][-1]) != kind:
            groups.append([])
        groups[-1].append(layer)
    return [tuple(layer.name for layer in group) for group in groups]


def _is_spatial(graph: Graph, layer: Layer) -> bool:
    shapes = [graph.tensors[tensor].shape for tensor in layer.outputs]
    return not layer.barrier and all(
        len(shape) >= 3 and shape[_height_axis(shape)] > 1 for shape in shapes
    )


def _height_axis(shape: Sequence[int]) -> int:
    """The axis divided into rows: the first behind the channels that is not depth."""
    return max(2, len(shape) - 2)


def split_extent(extent: int, shares: Sequence[float]) -> list[Interval]:
    """Consecutive intervals that divide ``extent`` in proportion to ``shares``.

    >>> split_extent(10, (1, 3, 1))
    [(0, 2), (2, 8), (8, 10)]
    """
    total = sum(shares)
    ends = [round(extent * part / total) for part in accumulate(shares)]
    return list(pairwise([0, *ends]))


def _divide(
    builder: WorkBuilder,
    named: tuple[str, tuple[str, ...]],
    devices: Sequence[str],
    options: UniformOptions,
) -> Stage | None:
    """The stage divided along the axis; None where it cannot be."""
    name, layers = named
    if options.axis == "none":
        number = int(name.removeprefix("s"))
        return Stage(name, layers, "none", (Shard(devices[number % len(devices)]),))
    if options.axis == "input_channels":
        return _partial(builder, named, devices, options)
    outputs = builder.stage_outputs(layers)
    axes = [_split_axis(builder.graph, tensor, options) for tensor in outputs]
    specs = [builder.graph.tensors[tensor] for tensor in outputs]
    if not specs or any(
        len(spec.shape) <= axis or spec.shape[axis] < 2
        for spec, axis in zip(specs, axes, strict=True)
    ):
        return None
    if any(builder.graph.layer(layer).barrier for layer in layers):
        return None
    shards: list[Shard] = []
    boxes = {
        spec.name: _cells(spec.shape, axis, options) for spec, axis in zip(specs, axes, strict=True)
    }
    for cell in range(max(map(len, boxes.values()))):
        device = devices[cell % len(devices)]
        shards.append(Shard(device, {tensor: cells[cell] for tensor, cells in boxes.items()}))
    return Stage(name, layers, options.axis, tuple(shards))


def _split_axis(graph: Graph, tensor: str, options: UniformOptions) -> int:
    """The axis that is divided; it may lie beyond the tensor's last."""
    if options.axis != "output_channels":
        return _height_axis(graph.tensors[tensor].shape)
    layer = graph.producer(tensor)
    axis = None if layer is None else row_axes(graph).channel_axis(layer.name)
    return 1 if axis is None else axis


def _cells(shape: tuple[int, ...], axis: int, options: UniformOptions) -> list[Region]:
    """The boxes of one tensor, in the order of the shards."""
    whole = Region.full(shape)
    spans = split_extent(shape[axis], options.shares)
    if options.axis != "tiles":
        return [whole.with_axis(axis, span) for span in spans]
    if len(shape) < 4:
        # Without columns the second tile of each row is empty.
        return [whole.with_axis(2, part) for a, b in spans for part in ((a, b), (b, b))]
    columns = split_extent(shape[axis + 1], (2, 3))
    return [
        whole.with_axis(axis, row).with_axis(axis + 1, column)
        for row, column in product(spans, columns)
    ]


def _partial(
    builder: WorkBuilder,
    named: tuple[str, tuple[str, ...]],
    devices: Sequence[str],
    options: UniformOptions,
) -> Stage | None:
    """The one-layer stage summed over parts of its input; None where it cannot be."""
    name, layers = named
    layer = builder.graph.layer(layers[0])
    summed = builder.regions.summed(layer)
    if summed is None:
        return None
    source, (axis, *_) = summed
    whole = builder.regions.whole(source)
    if whole.shape[axis] < 2:
        return None
    spans = split_extent(whole.shape[axis], options.shares)
    shards = tuple(
        Shard(device, {source: whole.with_axis(axis, span)})
        for device, span in zip(devices, spans, strict=True)
    )
    number = int(name.removeprefix("s"))
    return Stage(name, layers, "input_channels", shards, _merges(builder, layers, devices, number))


def _merges(
    builder: WorkBuilder, layers: tuple[str, ...], devices: Sequence[str], number: int
) -> tuple[Shard, ...]:
    """Merge owners, by turns one device, all of them, and a box each."""
    if number % 3 == 0:
        return (Shard(devices[number % len(devices)]),)
    shapes = {
        tensor: builder.graph.tensors[tensor].shape for tensor in builder.stage_outputs(layers)
    }
    if number % 3 == 1 or not all(shapes.values()):
        return tuple(Shard(device) for device in devices)
    spans = {
        # The channels, or the one axis that there is.
        tensor: (min(1, len(shape) - 1), split_extent(shape[:2][-1], [1] * len(devices)))
        for tensor, shape in shapes.items()
    }
    return tuple(
        Shard(
            device,
            {
                tensor: Region.full(shapes[tensor]).with_axis(axis, parts[k])
                for tensor, (axis, parts) in spans.items()
            },
        )
        for k, device in enumerate(devices)
    )
