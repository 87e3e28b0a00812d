"""Checking a plan against its graph and cluster: everything that is wrong, in one error."""

from __future__ import annotations

from collections.abc import Iterator

from partita.cluster import Cluster
from partita.compile.layout import work_builder
from partita.compile.planned import planned_graph
from partita.compile.work import WorkBuilder
from partita.errors import PlanError
from partita.graph import Graph
from partita.plan import Plan, Shard, Stage
from partita.program import MAX_SHARES
from partita.regions import (
    PICTURE_AXES,
    WIRE_FORMATS,
    Region,
    find_tiling_fault,
    is_plan_format,
    suits,
)

_BOXED = ("rows", "tiles", "output_channels", "input_channels")


def check_plan(graph: Graph, plan: Plan, cluster: Cluster) -> None:
    """Raise unless the plan is sound for this graph and cluster.

    Raises:
        PlanError: Lists every broken rule, each with its place in the plan.
    """
    faults = [*_list_faults(graph, plan, cluster), *_fallback_faults(graph, plan, cluster)]
    if faults:
        more = "".join(f"; {fault}" for fault in faults[1:8])
        rest = f"; and {len(faults) - 8} more" if len(faults) > 8 else ""
        raise PlanError(f"Plan is not sound: {faults[0]}{more}{rest}.", subject="plan")


def _list_faults(graph: Graph, plan: Plan, cluster: Cluster) -> Iterator[str]:
    graph = planned_graph(graph, plan)
    yield from _identity_faults(graph, plan, cluster)
    if plan.model.hash == graph.hash:
        # Of another model's plan no layer would be known.
        yield from _stage_faults(graph, plan, cluster)


def _fallback_faults(graph: Graph, plan: Plan, cluster: Cluster) -> Iterator[str]:
    """What is wrong with the plan that goes on when other devices are lost."""
    alone = plan.fallback
    if alone is None:
        return
    yield from (f"fallback: {fault}" for fault in _list_faults(graph, alone, cluster))
    if alone.fallback is not None:
        yield "fallback: it has a fallback itself, allowed: none"
    devices = {shard.device for stage in alone.stages for shard in (*stage.shards, *stage.merge)}
    for name in sorted(devices - {cluster.requester}):
        yield f"fallback: it uses device '{name}', allowed: the requester '{cluster.requester}'"


def _identity_faults(graph: Graph, plan: Plan, cluster: Cluster) -> Iterator[str]:
    if plan.model.hash != graph.hash:
        yield (
            f"it is for model '{plan.model.name}' ({plan.model.hash[:12]}), got"
            f" '{graph.name}' ({graph.hash[:12]})"
        )
    if plan.cluster.hash != cluster.hash:
        yield (
            f"it is for cluster '{plan.cluster.name}' with other devices, kinds, links or requester"
            f" than '{cluster.name}'"
        )
    if plan.in_flight < 1:
        yield f"key 'in_flight' is {plan.in_flight}, allowed: 1 or more"
    for tensor, wire in plan.wires.items():
        if tensor not in graph.tensors:
            yield f"wires names tensor '{tensor}', which the model does not have"
        if not is_plan_format(wire):
            yield f"wires.{tensor} is '{wire}', allowed: {', '.join(WIRE_FORMATS)}"
        elif tensor in graph.tensors and not suits(wire, graph.tensors[tensor].shape):
            shape = graph.tensors[tensor].shape
            yield f"wires.{tensor} of shape {shape} is '{wire}', allowed: {PICTURE_AXES}"
    for tensor, device in plan.keep_on.items():
        if tensor not in graph.tensors:
            yield f"keep_on names tensor '{tensor}', which the model does not have"
        if device not in cluster.names:
            yield f"keep_on.{tensor} names device '{device}', allowed: {', '.join(cluster.names)}"


def _stage_faults(graph: Graph, plan: Plan, cluster: Cluster) -> Iterator[str]:
    builder = work_builder(graph)
    known = {layer.name for layer in graph.layers}
    placed: dict[str, str] = {}
    names = [stage.name for stage in plan.stages]
    yield from (
        f"stage name '{name}' is used {names.count(name)} times, allowed: once"
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    )
    for stage in plan.stages:
        yield from (
            f"stage '{stage.name}' names layer '{name}', which the model does not have"
            for name in stage.layers
            if name not in known
        )
        yield from _order_faults(graph, stage, placed)
        placed |= dict.fromkeys(stage.layers, stage.name)
        yield from (
            f"stage '{stage.name}' uses device '{shard.device}', allowed:"
            f" {', '.join(cluster.names)}"
            for shard in (*stage.shards, *stage.merge)
            if shard.device not in cluster.names
        )
        if stage.layers and set(stage.layers) <= known:
            yield from _shard_faults(builder, stage)
    missing = [layer.name for layer in graph.layers if layer.name not in placed]
    if missing:
        yield f"layer '{missing[0]}' is in no stage ({len(missing)} such layers)"


def _order_faults(graph: Graph, stage: Stage, placed: dict[str, str]) -> Iterator[str]:
    inside = set(stage.layers)
    if len(inside) != len(stage.layers) or not stage.layers:
        yield f"stage '{stage.name}' has no layers, or one of them twice"
    for name in stage.layers:
        if name in placed:
            yield f"layer '{name}' is in stages '{placed[name]}' and '{stage.name}'"
        layer = next((known for known in graph.layers if known.name == name), None)
        for tensor in () if layer is None else layer.inputs:
            source = graph.producer(tensor)
            if source and source.name not in inside and source.name not in placed:
                yield f"stage '{stage.name}' reads '{tensor}' before a stage makes it"


def _shard_faults(builder: WorkBuilder, stage: Stage) -> Iterator[str]:
    place = f"stage '{stage.name}'"
    if not stage.shards:
        yield f"{place} has no shards"
        return
    yield from _share_faults(place, stage)
    if stage.merge:
        yield from _merge_faults(builder, stage)
        return
    if stage.axis == "input_channels":
        yield f"{place} is split by input_channels and needs key 'merge'"
        return
    if stage.axis == "none" and len(stage.shards) != 1:
        yield f"{place} is not split and has {len(stage.shards)} shards, allowed: 1"
    outputs = builder.stage_outputs(stage.layers)
    if stage.axis in _BOXED:
        yield from _tiling_faults(builder, place, stage.shards, outputs)
        return
    if any(shard.boxes for shard in stage.shards):
        yield f"{place} has axis '{stage.axis}', whose shards have no boxes"
    yield from _twice_faults(place, stage.shards)


def _share_faults(place: str, stage: Stage) -> Iterator[str]:
    shares = stage.shares
    if not shares:
        return
    if stage.axis != "replica":
        yield f"{place} has shares and axis '{stage.axis}', allowed: with axis 'replica'"
    elif len(shares) != len(stage.shards):
        yield f"{place} has {len(shares)} shares, allowed: {len(stage.shards)}, one for each shard"
    elif min(shares) < 1 or sum(shares) > MAX_SHARES:
        yield (
            f"{place} has shares {', '.join(map(str, shares[:8]))}, allowed: 1 or more each,"
            f" {MAX_SHARES} or less in all"
        )


def _twice_faults(place: str, shards: tuple[Shard, ...]) -> Iterator[str]:
    devices = [shard.device for shard in shards]
    for device in dict.fromkeys(devices):
        if devices.count(device) > 1:
            yield f"{place} is whole on device '{device}' {devices.count(device)} times"


def _tiling_faults(
    builder: WorkBuilder, place: str, shards: tuple[Shard, ...], outputs: tuple[str, ...]
) -> Iterator[str]:
    for shard in shards:
        for tensor in shard.boxes:
            if tensor not in outputs:
                yield f"{place}, device '{shard.device}': '{tensor}' is no output of the stage"
    for tensor in outputs:
        boxes = [shard.boxes[tensor] for shard in shards if tensor in shard.boxes]
        fault = find_tiling_fault(builder.graph.tensors[tensor].shape, boxes)
        if fault:
            yield f"{place}, tensor '{tensor}': {fault}"


def _merge_faults(builder: WorkBuilder, stage: Stage) -> Iterator[str]:
    place = f"stage '{stage.name}'"
    layer = builder.graph.layer(stage.layers[0])
    summed = builder.regions.summed(layer)
    if len(stage.layers) != 1 or summed is None:
        yield f"{place} has a merge, but is not one layer that can be summed in parts"
        return
    source, axes = summed
    if any(set(shard.boxes) != {source} for shard in stage.shards):
        yield f"{place}: each shard needs one box, of the layer's input '{source}'"
        return
    shape = builder.graph.tensors[source].shape
    boxes = [shard.boxes[source] for shard in stage.shards]
    fault = find_tiling_fault(shape, boxes) or _axis_fault(shape, boxes, axes)
    if fault:
        yield f"{place}, tensor '{source}': {fault}"
    if any(shard.boxes for shard in stage.merge):
        outputs = builder.stage_outputs(stage.layers)
        yield from _tiling_faults(builder, f"{place} merge", stage.merge, outputs)
    else:
        yield from _twice_faults(f"{place} merge", stage.merge)


def _axis_fault(shape: tuple[int, ...], boxes: list[Region], axes: tuple[int, ...]) -> str | None:
    for box in boxes:
        for axis, (span, extent) in enumerate(zip(box.bounds, shape, strict=True)):
            if axis not in axes and not box.is_empty and span != (0, extent):
                return f"{box} divides axis {axis}, allowed: {', '.join(map(str, axes))}"
    return None
