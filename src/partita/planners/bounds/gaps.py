"""Gaps: places in a network that no plan passes without a message, or with all on one device.

Every element of some layers depends on all of an earlier tensor, as what follows a dense layer or a
mean over space does. Let S be when the first such element is begun, on device d. All that makes the
tensor is on d by then: made there, or made elsewhere a message before S. So others than d end
what comes before a gap at S less the least delay of a link, and begin what comes after at S; in
between they do at most what is neither.

A layer that can be computed as sums of parts, and whose every element needs all of the tensor, is
computed either after S, or as sums that are then all needed before it: on one side, not in the gap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from partita.graph import Layer
from partita.planners.bounds.minimum_costs import MinimumCosts
from partita.regions import Region

#: Layers between a tensor and the elements that depend on all of it: a mean over space after a
#: convolution has one. Not tuned.
_MOST_BETWEEN = 2
#: More gaps take longer than they are worth: the program has about as many rows per device. Not
#: tuned.
_MOST_GAPS = 40
#: Rounding of the parts that are needed of a layer.
_ROUNDING = 1 - 1e-9


@dataclass(frozen=True)
class Gap:
    """What comes before and after a gap.

    Attributes:
        before: Layers of which all that is needed is computed before the gap.
        after: Layers of which nothing is computed before the end of the gap.
        apart: A layer that is computed on either side, but not in the gap: as sums of parts before
            it, else after it.
        delay_s: Its length; never so long that it begins before the gap before it ends.
    """

    before: frozenset[str]
    after: frozenset[str]
    apart: str | None
    delay_s: float


def find_gaps(floors: MinimumCosts) -> list[Gap]:
    """The gaps of a network, in order; which they are does not depend on devices and links.

    Where a gap follows another, and a device computes all between the two alone, it need not wait
    for others in the second. So that is no longer than one device takes for what is between.
    """
    chain: list[_Place] = []
    for place in sorted(_places(floors), key=lambda place: not place.is_direct):
        index = bisect_left(chain, place.position, key=lambda known: known.position)
        _insert(floors, chain, index, place)
    gaps: list[Gap] = []
    for place in chain:
        between = place.before & gaps[-1].after if gaps else place.before
        alone_s = min(
            sum(floors.required[name] * floors.layer_s[name][number] for name in between)
            for number in range(len(floors.devices))
        )
        gaps.append(Gap(place.before, place.after, place.apart, min(floors.hop_s, alone_s)))
    return gaps


class _Place(NamedTuple):
    """Where a gap may be: see :class:`Gap`.

    Attributes:
        position: Of the layer whose output is needed whole.
        is_direct: Whether that output itself is read.
    """

    position: int
    is_direct: bool
    before: frozenset[str]
    after: frozenset[str]
    apart: str | None


def _insert(floors: MinimumCosts, chain: list[_Place], index: int, place: _Place) -> None:
    """Insert a place where layers that multiply lie between it and the places next to it."""
    sides = [place.before, place.after]
    if index > 0:
        sides.append(chain[index - 1].after & place.before)
    if index < len(chain):
        sides.append(place.after & chain[index].before)
    multiplies = {layer.name for layer in floors.outline.graph.layers if layer.macs}
    if len(chain) < _MOST_GAPS and not any(multiplies.isdisjoint(side) for side in sides):
        chain.insert(index, place)


def _places(floors: MinimumCosts) -> Iterator[_Place]:
    """Yield all places where every element of a layer depends on a tensor that is made before."""
    graph, regions = floors.outline.graph, floors.outline.works.regions
    for layer in graph.layers:
        source = _find_source(floors, layer)
        if source is None:
            continue
        producer, tensor = source
        is_direct, is_summed = tensor in layer.inputs, regions.partial_form(layer) is not None
        yield _Place(
            graph.layer_index(producer.name),
            is_direct,
            _needed_for(floors, producer, tensor),
            _dependent_on(floors, layer, is_summed=is_summed),
            layer.name if is_summed and is_direct else None,
        )


def _find_source(floors: MinimumCosts, layer: Layer) -> tuple[Layer, str] | None:
    """The last tensor that every element of a layer depends on whole, and the layer that makes it.

    By at most few layers in between.
    """
    cones = [_cone(floors, layer, where) for where in (0.0, 0.5, 1.0)]
    regions, graph = floors.outline.works.regions, floors.outline.graph
    whole = [
        (producer, tensor)
        for tensor in cones[0]
        if all(cone.get(tensor) == regions.whole(tensor) for cone in cones)
        if (producer := graph.producer(tensor)) is not None
    ]
    if not whole:
        return None
    return max(whole, key=lambda pair: graph.layer_index(pair[0].name))


def _cone(floors: MinimumCosts, layer: Layer, where: float) -> dict[str, Region]:
    """The boxes that one element of a layer depends on, a few layers back.

    Args:
        floors: Of the network.
        layer: The layer.
        where: Which element: from 0, the first along each axis, to 1, the last.
    """
    graph, regions = floors.outline.graph, floors.outline.works.regions
    boxes: dict[str, Region] = {}
    elements = {tensor: _element(graph.tensors[tensor].shape, where) for tensor in layer.outputs}
    if len(elements) != 1 or any(box is None for box in elements.values()):
        return boxes
    wanted = [(layer, {tensor: box for tensor, box in elements.items() if box is not None})]
    for _ in range(_MOST_BETWEEN + 1):
        following = []
        for reader, outs in wanted:
            for tensor, box in regions.walk(reader, outs).needs.items():
                if tensor not in boxes or box.size > boxes[tensor].size:
                    boxes[tensor] = box
                producer = graph.producer(tensor)
                if producer is not None and _is_dense(producer):
                    following.append((producer, {tensor: boxes[tensor]}))
        wanted = following
    return boxes


def _element(shape: Sequence[int], where: float) -> Region | None:
    if min(shape, default=1) < 1:
        return None
    return Region(tuple((at, at + 1) for at in (int((extent - 1) * where) for extent in shape)))


def _is_dense(layer: Layer) -> bool:
    """Whether the elements of a box depend together on all that the box needs: no steps over."""
    if layer.window is None or len(layer.outputs) != 1:
        return False
    steps = zip(layer.window.kernel, layer.window.stride, strict=True)
    return all(kernel >= stride for kernel, stride in steps)


def _needed_for(floors: MinimumCosts, producer: Layer, tensor: str) -> frozenset[str]:
    """The layers of which a tensor needs all that the outputs need."""
    needed = floors.required_for((tensor,), producer)
    return frozenset(
        name
        for name, part in needed.items()
        if part > 0 and part >= floors.required[name] * _ROUNDING
    )


def _dependent_on(floors: MinimumCosts, first: Layer, *, is_summed: bool) -> frozenset[str]:
    """The layers of which nothing can be computed without an element of the first one's outputs."""
    graph, regions = floors.outline.graph, floors.outline.works.regions
    full = set(first.outputs)
    after = set() if is_summed else {first.name}
    for layer in graph.layers[graph.layer_index(first.name) + 1 :]:
        if full.isdisjoint(layer.inputs):
            continue
        is_full = all(
            any(not box.is_empty for tensor, box in needs.items() if tensor in full)
            for needs in _samples(floors, layer)
        )
        if is_full:
            full.update(layer.outputs)
        summed = regions.summed(layer)
        if is_full and (summed is None or summed[0] in full):
            after.add(layer.name)
    return frozenset(after)


def _samples(floors: MinimumCosts, layer: Layer) -> Iterator[dict[str, Region]]:
    """Yield what single elements of each output need; nothing where an output is empty."""
    graph, regions = floors.outline.graph, floors.outline.works.regions
    for tensor in layer.outputs:
        for where in (0.0, 0.5, 1.0):
            box = _element(graph.tensors[tensor].shape, where)
            yield {} if box is None else dict(regions.walk(layer, {tensor: box}).needs)


def least_first_s(floors: MinimumCosts, gaps: Sequence[Gap]) -> float:
    """The least seconds from the beginning to the first gap."""
    first = gaps[0]
    return max(0.0, floors.fluid_s(tuple(first.before)) - first.delay_s)


def least_last_s(floors: MinimumCosts, gaps: Sequence[Gap]) -> float:
    """The least seconds from the last gap to the end: all on the requester, or a message to it."""
    home = floors.evaluator.requester
    away = [s for name, s in zip(floors.devices, floors.return_s, strict=True) if name != home]
    if home not in floors.devices:
        return min(away)
    number = floors.devices.index(home)
    here_s = sum(floors.required[name] * floors.layer_s[name][number] for name in gaps[-1].after)
    return min([here_s, *away, inf])
