"""Seconds of whole ranges of layers and of moving what crosses a cut, for dynamic programs."""

from __future__ import annotations

from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.pricing.problem import Problem
from partita.regions import Region

#: Dynamic programs look at no more places to cut than this: more take longer, fewer miss cuts. Not
#: tuned.
MOST_CUTS = 32


class RangeCosts:
    """Seconds of whole ranges and of cuts, remembered."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._outline = problem.outline
        self._works: dict[tuple[int, int, str], float] = {}
        self._moves: dict[tuple[int, str, str], float] = {}

    def work_s(self, start: int, stop: int, device: str) -> float:
        """The seconds of layers ``start`` to ``stop`` as one fragment on a device."""
        key = (start, stop, device)
        seconds = self._works.get(key)
        if seconds is None:
            outline = self._outline
            boxes = {tensor: self._whole(tensor) for tensor in outline.outputs(start, stop)}
            work = outline.works.stage(outline.layers(start, stop), boxes)
            seconds = self._works[key] = self._problem.cost.work_s(device, work)
        return seconds

    def _whole(self, tensor: str) -> Region:
        return Region.full(self._outline.graph.tensors[tensor].shape)

    def move_s(self, position: int, source: str, target: str) -> float:
        """The seconds to move all tensors that cross a cut; infinite without a link.

        Messages of one link are sent one after the other, and all but the first overlap its delay.
        """
        if source == target or not self._outline.live(position):
            return 0.0
        key = (position, source, target)
        seconds = self._moves.get(key)
        if seconds is None:
            seconds = self._moves[key] = self._move_s(position, source, target)
        return seconds

    def _move_s(self, position: int, source: str, target: str) -> float:
        problem = self._problem
        link = problem.cluster.link(source, target)
        live = self._outline.live(position)
        if link is None or not set(live).isdisjoint(problem.options.keep_on):
            return float("inf")
        messages = [
            problem.cost.transfer_s(source, target, problem.wire_bytes(tensor)) for tensor in live
        ]
        return sum(messages) - link.latency_s * (len(messages) - 1)


def cut_positions(outline: LayerOrder, most: int = MOST_CUTS) -> list[int]:
    """Places to cut: all where they are few, else those that fewest bytes cross.

    Both ends belong to them, and the borders of pinned layers.
    """
    ends = {0, len(outline)}
    for position in outline.pins:
        ends |= {position, position + 1}
    inner = [position for position in range(1, len(outline)) if position not in ends]
    if len(inner) + len(ends) > most:
        inner = outline.least_crossed(inner)[: max(1, most - len(ends))]
    return sorted(ends | set(inner))
