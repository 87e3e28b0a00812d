"""What whole ranges of layers and moving what crosses a cut cost, for dynamic programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from partita.compile import FragmentWork
from partita.cost import MemoryUse
from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.pricing.problem import Problem
from partita.regions import Region

#: Dynamic programs look at no more places to cut than this: more take longer, fewer miss cuts. Not
#: tuned.
MOST_CUTS = 32


class RangeCosts:
    """Seconds and memory of whole ranges, and seconds of cuts, remembered."""

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
            work = self._work(start, stop)
            seconds = self._works[key] = self._problem.cost.work_s(device, work)
        return seconds

    def memory(self, start: int, stop: int, device: str) -> MemoryUse:
        """The memory of layers ``start`` to ``stop`` as one fragment, the only one on a device.

        What :meth:`~partita.cost.CostModel.memory` says of a plan where the device computes nothing
        else, for all requests in flight.
        """
        work = self._work(start, stop)
        alone = self._problem.cost.work_memory(work)
        pieces = alone.pieces
        if device == self._problem.requester:
            graph, read = self._outline.graph, dict(work.inputs)
            waiting = (t for t in self._outline.live(start) if t in graph.inputs and t not in read)
            held = (pieces + self._bytes(waiting), self._bytes(graph.inputs))
            pieces = max(*held, self._bytes(graph.outputs))
        return replace(alone, pieces=pieces * self._problem.options.in_flight)

    def _bytes(self, tensors: Iterable[str]) -> int:
        return sum(map(self._outline.size_bytes, tensors))

    def _work(self, start: int, stop: int) -> FragmentWork:
        outline = self._outline
        boxes = {tensor: self._whole(tensor) for tensor in outline.outputs(start, stop)}
        return outline.works.stage(outline.layers(start, stop), boxes)

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
