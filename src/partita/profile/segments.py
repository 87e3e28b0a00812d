"""Which layers are measured together, and for which boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from partita.graph import Graph
from partita.graph.regions import RegionMap
from partita.graph.splits import RowAxes
from partita.program import TensorSpec
from partita.regions import Region

#: Shares of the rows at which a segment is measured; one single row is added. Halves, and one
#: between; not tuned: more follow stairs better and take as much longer.
SHARES = (1.0, 0.75, 0.5, 0.25, 0.125)
#: A group ends at the next place that one tensor crosses once it has so many layers. Not tuned:
#: longer groups are converted less often, and more layers are measured at once.
MIN_LAYERS = 4
#: It ends here in any case, where blocks have no such place. Not tuned.
MAX_LAYERS = 9


@dataclass(frozen=True)
class SizedSegment:
    """Layers to be measured as one fragment.

    Attributes:
        layers: Names with the boxes of their outputs, in topological order.
        inputs: Tensors and boxes that come in.
        outputs: Tensors and boxes that go out.
    """

    layers: tuple[tuple[str, dict[str, Region]], ...]
    inputs: tuple[tuple[str, Region], ...]
    outputs: tuple[tuple[str, Region], ...]


def make_segments(graph: Graph, axes: RowAxes, *, whole: bool = False) -> list[tuple[str, ...]]:
    """The layers in groups that are measured together.

    A group ends where few tensors cross, since converting them costs extra; layers with and without
    rows never share a group.

    Args:
        whole: One layer per group, for profiles at every extent.
    """
    groups: list[list[str]] = []
    open_group: list[str] = []
    before: bool | None = None
    cuts = graph.cuts()
    for position, layer in enumerate(graph.layers, start=1):
        divisible = axes.is_divisible(layer.name)
        if open_group and divisible != before:
            groups.append(open_group)
            open_group = []
        open_group.append(layer.name)
        before = divisible
        long_enough = len(open_group) >= MIN_LAYERS and len(cuts[position].tensors) == 1
        if whole or long_enough or len(open_group) >= MAX_LAYERS:
            groups.append(open_group)
            open_group = []
    return [tuple(group) for group in [*groups, open_group] if group]


def choose_rows(full: int, rows: Literal["few", "all"]) -> list[int]:
    """The numbers of rows at which outputs of ``full`` rows are measured, largest first."""
    if rows == "all":
        return list(range(full, 0, -1))
    return sorted({*(max(1, round(full * share)) for share in SHARES), 1}, reverse=True)


def few_rows(full: int) -> int:
    """The number of rows at or below which each layer is measured, in whatever group."""
    return max(1, round(full * SHARES[-1]))


def middle_rows(spec: TensorSpec, axis: int | None, share: float) -> Region:
    """The middle rows of a tensor; the whole tensor where it has no row axis."""
    whole = Region.full(spec.shape)
    if axis is None:
        return whole
    full = spec.shape[axis]
    count = min(full, max(1, round(full * share)))
    start = (full - count) // 2
    return whole.with_axis(axis, (start, start + count))


def size_segment(
    graph: Graph, regions: RegionMap, layers: Sequence[str], wanted: dict[str, Region]
) -> SizedSegment:
    """The group computed so that the boxes of ``wanted`` come out, halos included."""
    group = [graph.layer(name) for name in layers]
    computed, boxes = regions.walk_group(group, wanted)
    inner = {tensor for layer in group for tensor in layer.outputs}
    return SizedSegment(
        tuple((layer.name, outs) for layer, outs in computed),
        tuple((tensor, box) for tensor, box in boxes.items() if tensor not in inner),
        tuple((tensor, boxes[tensor]) for tensor in wanted),
    )
