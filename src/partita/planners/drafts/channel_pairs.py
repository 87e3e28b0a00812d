"""Where one sum joins two layers: ranges divided by channels before a layer that sums over these.

A convolution and the one after it, the two products of a perceptron, or attention by heads and the
product after it: each device makes some channels and at once its partial result of the next layer.
Nothing is gathered between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from partita.graph import Layer
from partita.planners.drafts.draft import DraftStage, scale_cut, share_cuts
from partita.planners.drafts.layer_order import LayerOrder
from partita.regions import Region


@dataclass(frozen=True)
class ChannelPair:
    """Layers that one sum joins.

    Attributes:
        start: First layer that is divided by channels.
        last: The layer that sums over them; the range before it may be empty.
        groups: How many groups of channels can be computed apart: channels, or heads.
    """

    start: int
    last: int
    groups: int

    def stages(
        self, devices: tuple[str, ...], shares: list[float], merge: tuple[str, ...]
    ) -> tuple[DraftStage, ...]:
        """The stages of the pair, divided among devices in proportion to shares."""
        cuts = share_cuts(shares, self.groups)
        summed = DraftStage(self.last, self.last + 1, "input_channels", devices, cuts, merge=merge)
        if self.start == self.last:
            return (summed,)
        return DraftStage(self.start, self.last, "output_channels", devices, cuts), summed


def channel_pairs(outline: LayerOrder) -> list[ChannelPair]:
    """The pairs of a network in order, each with the longest range before its sum.

    Layers that can be summed, but whose input is not made by channels, have an empty range.
    """
    pairs = (_pair_at(outline, position) for position in range(len(outline)))
    return [pair for pair in pairs if pair is not None]


def is_pair(first: DraftStage, second: DraftStage) -> bool:
    """Whether the second stage sums over what each device has of the first."""
    return (
        (first.axis, second.axis) == ("output_channels", "input_channels")
        and first.devices == second.devices
        and first.cuts == second.cuts
    )


def _pair_at(outline: LayerOrder, position: int) -> ChannelPair | None:
    channels = outline.input_channels(position, position + 1)
    if channels < 2:
        return None
    layer = outline.graph.layer(outline.order[position])
    source = outline.graph.nodes[layer.nodes[0]].inputs[0]
    start, groups = position, channels
    for first in range(position - 1, -1, -1):
        if first in outline.pins:
            break
        finer = _groups(outline, (first, position), source, groups)
        if not finer:
            break
        groups = finer
        if outline.outputs(first, position) == (source,):
            start, best = first, finer
    return ChannelPair(start, position, channels if start == position else best)


def _groups(outline: LayerOrder, span: tuple[int, int], source: str, groups: int) -> int:
    """Into how many groups all layers of a range can be divided; 0 where one is not cut.

    Asked of the rules: half of the source's channels need about half of every layer's output.
    """
    axis = outline.channel_axis(source)
    producer = outline.graph.producer(source)
    if axis is None or producer is None:
        return 0
    whole = Region.full(outline.graph.tensors[source].shape)
    extent = whole.shape[axis]
    half = whole.with_axis(axis, (0, scale_cut(groups // 2, groups, extent)))
    works = outline.works
    computed, _ = works.regions.walk_group(works.ordered(outline.layers(*span)), {source: half})
    if len(computed) < span[1] - span[0]:
        return 0
    for layer, boxes in computed:
        groups = gcd(groups, _cut_extent(outline, layer, boxes))
    return groups if groups > 1 else 0


def _cut_extent(outline: LayerOrder, layer: Layer, boxes: dict[str, Region]) -> int:
    """The extent of the one axis along which a layer's outputs are cut to half; 1 for none."""
    if layer.barrier or len(boxes) != len(layer.outputs):
        return 1
    extents = set()
    for tensor, box in boxes.items():
        shape = outline.graph.tensors[tensor].shape
        cut = [n for span, n in zip(box.bounds, shape, strict=True) if span != (0, n)]
        if len(cut) != 1 or box.size > 0.75 * Region.full(shape).size:
            return 1
        extents.add(cut[0])
    return extents.pop() if len(extents) == 1 else 1
