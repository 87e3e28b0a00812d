"""The graph that a plan speaks of: quantised as the plan says."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from partita.graph import Graph
from partita.graph.pins import rounded_inputs
from partita.graph.quantised import with_kernels
from partita.plan import Plan, Shard, Stage
from partita.quantisation import quantize
from partita.regions import LayerBits


def planned_graph(graph: Graph, plan: Plan) -> Graph:
    """The graph that the plan's stages, boxes and hash are of.

    Whoever takes a graph and a plan asks this first; asked again, it answers the same graph.

    Args:
        graph: The model's, or one that was quantised from it.

    Raises:
        PlanError: The plan's bits do not fit the model.
    """
    if (graph.base is not None or not plan.bits) and plan.model.hash == graph.hash:
        return graph
    planned = graph
    if graph.base is not None or plan.bits:
        planned = (graph.base or graph).remember(_Quantised).of(plan.bits)
    if planned.packings and planned.integer != plan.integer_kernels:
        return planned.remember(_other_kernels)
    return planned


def _other_kernels(graph: Graph) -> Graph:
    return with_kernels(graph, integer=not graph.integer)


class _Quantised:
    """The graph last quantised from another: of large models several would fill the memory."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._made: dict[bytes, Graph] = {}

    def of(self, bits: Mapping[str, LayerBits]) -> Graph:
        """The graph quantised by a table of bits."""
        key = msgspec.json.encode(bits, order="deterministic")
        if key not in self._made:
            self._made = {key: quantize(self._graph, bits)}
        return self._made[key]


def float_plan(graph: Graph, plan: Plan) -> Plan:
    """The same division of the network without bits: what is exact in it is exact with them, too.

    Stages lose the layers that round inputs, and those of nothing else go.

    Args:
        graph: The model's, or one that was quantised from it.
    """
    base = graph.base or graph
    quantised = planned_graph(graph, plan)
    known = {layer.name for layer in base.layers}
    inputs = rounded_inputs(quantised)
    stages = []
    for stage in plan.stages:
        layers = tuple(name for name in stage.layers if name in known)
        if layers:
            shards = tuple(_without_rounding(stage, shard, inputs) for shard in stage.shards)
            stages.append(msgspec.structs.replace(stage, layers=layers, shards=shards))
    return msgspec.structs.replace(
        plan,
        model=msgspec.structs.replace(plan.model, hash=base.hash),
        stages=tuple(stages),
        wires={inputs.get(name, name): wire for name, wire in plan.wires.items()},
        keep_on={inputs.get(name, name): device for name, device in plan.keep_on.items()},
        bits={},
    )


def _without_rounding(stage: Stage, shard: Shard, inputs: Mapping[str, str]) -> Shard:
    """A shard that makes no rounded inputs, and sums over inputs themselves."""
    boxes = {
        inputs.get(name, name): box
        for name, box in shard.boxes.items()
        if stage.merge or name not in inputs
    }
    return msgspec.structs.replace(shard, boxes=boxes)
