"""Which division of a layer the paper on collaborative execution advises, and why, in a word each.

*Collaborative execution of deep neural networks on Internet of Things devices*, sections 4 and 6
and table 3, on its own boards: layers below 0.2 s are left whole unless memory forces a division;
dense layers are divided by outputs, so that activations are applied where they are computed; a
convolution is divided such that the least travels beyond its input and output: the halo of rows,
copies of the input, or partial sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from partita.cluster import find_entry
from partita.compile.split_costs import (
    LayerShape,
    NodeCost,
    by_inputs,
    by_outputs,
    by_positions,
    communication,
    layer_shape,
)
from partita.graph import Graph, Layer

#: The paper's boards, and what it calls too short to divide.
_BOARD = "raspberry-pi-3-keras"
_SHORT_S = 0.2
#: Nodes that divide a layer in its figure 14.
_NODES = 3

Reason = Literal["small", "halo", "copies", "sums", "activation", "whole"]


class Advice(NamedTuple):
    """What is advised for a layer.

    Attributes:
        split: A way to divide it, as in ``RowAxes.splits``; ``none`` to leave it whole.
        reason: ``small``: too little work to divide. ``halo``, ``copies``, ``sums``: the least
            that travels more. ``activation``: applied where it is computed. ``whole``: there is no
            way to divide it.
    """

    split: str
    reason: Reason


def advise(graph: Graph, layer: Layer, splits: Sequence[str]) -> Advice:
    """What the paper advises for a layer that can be divided in these ways."""
    shape = layer_shape(graph, layer)
    ways = {split for split in splits if split != "reduce"}
    if not ways:
        return Advice("none", "whole")
    if shape is None or _is_small(layer):
        return Advice("none", "small")
    if not shape.size:
        return Advice("output_channels", "activation")
    return min(
        (way for way in _ways(shape) if way[1].split in ways),
        key=lambda way: way[0],
        default=(0, Advice("none", "whole")),
    )[1]


def _is_small(layer: Layer) -> bool:
    board = find_entry(_BOARD)
    rate = board.peak_macs_per_s["float32"] * board.efficiency
    return layer.macs < _SHORT_S * rate and layer.weight_bytes < board.memory_bytes


def _ways(shape: LayerShape) -> list[tuple[int, Advice]]:
    """What travels in each way to divide a convolution, the first among equals advised."""
    ways: list[tuple[list[NodeCost], Advice]] = []
    if shape.size:
        rows = [_even(shape.output_size[0]), *([extent] for extent in shape.output_size[1:])]
        ways.append((by_positions(shape, rows), Advice("rows", "halo")))
    groups = shape.groups if shape.groups > 1 else shape.outputs
    filters = [part * shape.outputs // groups for part in _even(groups)]
    ways.append((by_outputs(shape, filters), Advice("output_channels", "copies")))
    if shape.groups == 1:
        ways.append((by_inputs(shape, _even(shape.inputs)), Advice("input_channels", "sums")))
    return [(communication(nodes), advice) for nodes, advice in ways]


def _even(extent: int) -> list[int]:
    """So many parts of an extent as there are nodes, as even as they come."""
    ends = [extent * number // _NODES for number in range(_NODES + 1)]
    return [stop - start for start, stop in pairwise(ends)]
