"""Per-layer times inside a fragment, from ONNX Runtime's own profiler.

Layers measured one by one cost 3 to 15 % more than together, and small ones many times more: each
call pays the run's overhead, and each border converts tensors into the engine's blocked layout and
back. So fragments of several layers are run, and the engine says what each node took.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from partita.engine.timing import NodeTime
from partita.graph import Graph
from partita.graph.fragment import BlobStore, Fragment, FragmentWriter, Held
from partita.graph.regions import RegionMap
from partita.profile.borders import FUSED
from partita.profile.segments import SizedSegment

_NODE = re.compile(r"L(\d+)\.")
_ENTER, _LEAVE = "ReorderInput", "ReorderOutput"


class TraceWriter(FragmentWriter):
    """Writes fragments whose names tell the layer that each node and tensor belongs to."""

    def __init__(self, graph: Graph, regions: RegionMap, store: BlobStore) -> None:
        super().__init__(graph, regions, store)
        self.place = 0

    def _fresh(self) -> str:
        return super()._fresh() + f"L{self.place}."

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Mapping[str, Any],
        *,
        outputs: int = 1,
        domain: str = "",
    ) -> list[str]:
        """Add a node named after its layer and return the names of its outputs."""
        names = super().node(op, inputs, attrs, outputs=outputs, domain=domain)
        self._nodes[-1].name = names[0]
        return names


def write_segment(
    graph: Graph, regions: RegionMap, segment: SizedSegment, store: BlobStore
) -> Fragment:
    """A segment as a fragment whose profile :func:`read_trace` understands."""
    writer = TraceWriter(graph, regions, store)
    held: Held = {tensor: (f"i{k}", box) for k, (tensor, box) in enumerate(segment.inputs)}
    for place, (name, boxes) in enumerate(segment.layers):
        writer.place = place
        writer.layer(name, boxes, held)
    names = [writer.crop(*held[tensor], box) for tensor, box in segment.outputs]
    values = [
        [(graph.tensors[tensor].dtype, box) for tensor, box in ends]
        for ends in (segment.inputs, segment.outputs)
    ]
    return writer.finish(values[0], values[1], names)


@dataclass
class FragmentRun:
    """One run of a fragment.

    Attributes:
        layers: Seconds per place of a layer in the segment.
        sums: The part of them that sums and products took which are nodes of their own.
        enter: Bytes and seconds of each tensor converted to the blocked layout.
        leave: The same for tensors converted back.
    """

    layers: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    sums: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    enter: list[tuple[int, float]] = field(default_factory=list)
    leave: list[tuple[int, float]] = field(default_factory=list)
    nodes: int = 0

    @property
    def seconds(self) -> tuple[float, ...]:
        """Of each layer and each conversion."""
        layers = (self.layers[place] for place in sorted(self.layers))
        return (*layers, *(seconds for _, seconds in (*self.enter, *self.leave)))

    @property
    def total_s(self) -> float:
        """All nodes together."""
        return sum(self.seconds)


@dataclass(frozen=True)
class Trace:
    """All runs of one fragment.

    Attributes:
        blocked: Places of layers that ran in the blocked layout.
    """

    runs: list[FragmentRun]
    blocked: set[int]


def read_trace(runs: Sequence[Sequence[NodeTime]], segment: SizedSegment) -> Trace:
    """The runs of a fragment, by layers.

    Args:
        runs: The nodes of each run.
        segment: What the fragment was written from.
    """
    producers = {name: place for place, (_, boxes) in enumerate(segment.layers) for name in boxes}
    outputs = [producers.get(tensor, 0) for tensor, _ in segment.outputs]
    blocked: set[int] = set()
    return Trace([_read_run(nodes, outputs, blocked) for nodes in runs], blocked)


def _read_run(
    nodes: Sequence[NodeTime],
    outputs: Sequence[int],
    blocked: set[int],
) -> FragmentRun:
    run = FragmentRun(nodes=len(nodes))
    borders = {_ENTER: run.enter, _LEAVE: run.leave}
    place = 0
    for node in nodes:
        if node.op in borders:
            borders[node.op].append((node.output_bytes, node.seconds))
            continue
        place = _find_place(node.name, outputs, place)
        run.layers[place] += node.seconds
        if node.op in FUSED:
            run.sums[place] += node.seconds
        if node.name.endswith("_nchwc"):
            blocked.add(place)
    return run


def _find_place(name: str, outputs: Sequence[int], before: int) -> int:
    match = _NODE.search(name)
    if match is not None:
        return int(match.group(1))
    output = re.match(r"o(\d+)(?:_nchwc)?$", name)
    return outputs[int(output.group(1))] if output is not None else before
