"""Random plans: any order of stages, any axis, any boxes, any owners of merges."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from partita.cluster import Cluster
from partita.compile import WorkBuilder, work_builder
from partita.graph import Graph
from partita.plan import Identity, Plan, Shard, SplitAxis, Stage
from partita.regions import Region
from tests.laws.programs import draw_shares


def draw_cluster(rng: Random) -> Cluster:
    """Return a cluster of 1 to 5 devices, all linked."""
    names = [f"d{number}" for number in range(rng.randint(1, 5))]
    return Cluster.of(names, requester=rng.choice(names))


def draw_plan(rng: Random, graph: Graph, cluster: Cluster) -> Plan:
    """Return a sound plan: every rule that ``check_plan`` knows is kept, nothing else."""
    builder = work_builder(graph)
    stages = [
        draw_stage(rng, builder, cluster.names, (f"s{number}", layers))
        for number, layers in enumerate(_draw_groups(rng, graph))
    ]
    return Plan(
        Identity(graph.name, graph.hash),
        Identity(cluster.name, cluster.hash),
        tuple(stages),
        planner="random",
        in_flight=rng.randint(1, 4),
    )


def _draw_groups(rng: Random, graph: Graph) -> list[tuple[str, ...]]:
    """Return the layers in some topological order, cut at random places."""
    order = _draw_order(rng, graph)
    groups: list[list[str]] = [[]]
    longest = rng.choice([1, 2, 4, len(order)])
    for name in order:
        if groups[-1] and rng.randint(1, longest) == 1:
            groups.append([])
        groups[-1].append(name)
    return [tuple(group) for group in groups]


def _draw_order(rng: Random, graph: Graph) -> list[str]:
    waiting = {layer.name: layer for layer in graph.layers}
    made = set(graph.inputs)
    order = []
    while waiting:
        ready = [name for name, layer in waiting.items() if made.issuperset(layer.inputs)]
        name = rng.choice(ready) if rng.randint(1, 3) == 1 else ready[0]
        order.append(name)
        made.update(waiting.pop(name).outputs)
    return order


def draw_stage(
    rng: Random, builder: WorkBuilder, devices: tuple[str, ...], named: tuple[str, tuple[str, ...]]
) -> Stage:
    """Return a stage of the named layers along a random axis."""
    name, layers = named
    if len(layers) == 1 and rng.randint(1, 2) == 1:
        stage = _draw_merged(rng, builder, devices, named)
        if stage is not None:
            return stage
    outputs = builder.stage_outputs(layers)
    axes: list[SplitAxis] = ["none", "everywhere", "replica", "rows", "tiles", "output_channels"]
    axis = rng.choice([*axes, "rows", "tiles", "output_channels"])
    if axis == "none":
        return Stage(name, layers, axis, (Shard(rng.choice(devices)),))
    can_be_cut = outputs and all(builder.regions.whole(tensor).bounds for tensor in outputs)
    if axis in ("everywhere", "replica") or not can_be_cut:
        chosen = rng.sample(devices, rng.randint(1, len(devices)))
        kind: SplitAxis = axis if axis in ("everywhere", "replica") else "everywhere"
        shards = tuple(Shard(device) for device in chosen)
        shares = draw_shares(rng, len(shards)) if kind == "replica" else ()
        return Stage(name, layers, kind, shards, shares=shares)
    return Stage(name, layers, axis, _draw_shards(rng, builder, devices, (outputs, axis)))


def _draw_shards(
    rng: Random,
    builder: WorkBuilder,
    devices: tuple[str, ...],
    what: tuple[tuple[str, ...], SplitAxis],
) -> tuple[Shard, ...]:
    """Return shards whose boxes tile each output, each output with its own cuts; some are empty."""
    outputs, axis = what
    count = rng.randint(1, len(devices) + 1)
    cells = {
        tensor: draw_tiling(rng, builder.regions.whole(tensor), count, axis) for tensor in outputs
    }
    return tuple(
        Shard(
            devices[k] if k < len(devices) else rng.choice(devices),
            {tensor: boxes[k] for tensor, boxes in cells.items()},
        )
        for k in range(count)
    )


def draw_tiling(rng: Random, whole: Region, count: int, axis: SplitAxis) -> list[Region]:
    """Return ``count`` boxes that cover ``whole`` exactly once, some of them perhaps empty."""
    rank = len(whole.bounds)
    allowed = {
        "rows": [min(2, rank - 1)],
        "output_channels": [min(1, rank - 1)],
    }.get(axis, list(range(rank)))
    boxes = cut_apart(rng, whole, count, allowed)
    rng.shuffle(boxes)
    return boxes


def cut_apart(rng: Random, whole: Region, count: int, axes: Sequence[int]) -> list[Region]:
    """Return ``count`` boxes, cut along some axes at random places, that cover ``whole`` once."""
    boxes = [whole]
    while len(boxes) < count:
        place, along = rng.randrange(len(boxes)), rng.choice(axes)
        start, stop = boxes[place].bounds[along]
        middle = rng.randint(start, stop)
        spans = (start, middle), (middle, stop)
        boxes[place : place + 1] = [boxes[place].with_axis(along, span) for span in spans]
    return boxes


def _draw_merged(
    rng: Random, builder: WorkBuilder, devices: tuple[str, ...], named: tuple[str, tuple[str, ...]]
) -> Stage | None:
    """Return the one-layer stage computed in partial sums; None where the layer cannot be."""
    name, layers = named
    layer = builder.graph.layer(layers[0])
    summed = builder.regions.summed(layer)
    if summed is None:
        return None
    source, axes = summed
    boxes = cut_apart(rng, builder.regions.whole(source), 1 + rng.randint(0, len(devices)), axes)
    shards = tuple(Shard(rng.choice(devices), {source: box}) for box in boxes)
    axis: SplitAxis = "input_channels" if rng.randint(1, 2) == 1 else "rows"
    return Stage(name, layers, axis, shards, _draw_merge(rng, builder, devices, layers))


def _draw_merge(
    rng: Random, builder: WorkBuilder, devices: tuple[str, ...], layers: tuple[str, ...]
) -> tuple[Shard, ...]:
    """Return merge owners: one device, several with everything, or several with a box each."""
    outputs = builder.stage_outputs(layers)
    kind = rng.randint(1, 3)
    if kind == 3 and not all(builder.regions.whole(tensor).bounds for tensor in outputs):
        kind = 2  # a number cannot be cut
    if kind == 1:
        return (Shard(rng.choice(devices)),)
    if kind == 2:
        chosen = rng.sample(devices, rng.randint(1, len(devices)))
        return tuple(Shard(device) for device in chosen)
    return _draw_shards(rng, builder, devices, (outputs, "tiles"))
