"""What whole ranges of layers and moving what crosses a cut cost, for dynamic programs."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from math import inf

from partita.cost import MemoryUse
from partita.execution import Port
from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.pricing.costs import StepCosts
from partita.planners.pricing.problem import Problem
from partita.planners.pricing.range_works import RangeWorks

#: Dynamic programs look at no more places to cut than this: more take longer, fewer miss cuts. Not
#: tuned.
MOST_CUTS = 32


#: What messages occupy: a link by its ends, a medium by its name, a port.
Lane = tuple[str, str] | str | Port


class RangeCosts:
    """Seconds and memory of whole ranges, and seconds of cuts, remembered."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._outline = problem.outline
        self.works = RangeWorks(problem.outline)
        self._seconds: dict[tuple[int, int, str], float] = {}
        self._memory: dict[tuple[int, int, bool], MemoryUse] = {}
        #: Of one request, and what each more in flight takes.
        self._alone: dict[tuple[int, int, bool], tuple[MemoryUse, int]] = {}
        self._fragments: dict[tuple[int, int], MemoryUse] = {}
        # Asked once: whether an object has all of a protocol's members takes long to find out.
        self._codec = problem.cost if isinstance(problem.cost, StepCosts) else None
        self._moves: dict[tuple[int, str, str], tuple[float, float]] = {}

    def with_in_flight(self, problem: Problem) -> RangeCosts:
        """The same for a problem that differs in the requests in flight: what is known is shared.

        All but memory, and seconds where a device swaps what they take.
        """
        other = copy(self)
        other._problem, other._memory = problem, {}
        if any(map(problem.may_swap, problem.cluster.names)):
            other._seconds = {}
        return other

    def work_s(self, start: int, stop: int, device: str) -> float:
        """The seconds of layers ``start`` to ``stop`` as one fragment, the only one on a device.

        Where the device may swap, what does not fit counts.
        """
        key = (start, stop, device)
        seconds = self._seconds.get(key)
        if seconds is None:
            seconds = self._problem.cost.work_s(device, self.works.work(start, stop))
            if self._problem.may_swap(device):
                seconds += self._problem.swap_s(device, self.memory(start, stop, device))
            self._seconds[key] = seconds
        return seconds

    def memory(self, start: int, stop: int, device: str) -> MemoryUse:
        """The memory of layers ``start`` to ``stop`` as one fragment, the only one on a device.

        What :meth:`~partita.cost.CostModel.memory` says of a plan where the device computes nothing
        else, for all requests in flight.
        """
        is_home = device == self._problem.requester
        key = (start, stop, is_home)
        use = self._memory.get(key)
        if use is None:
            if key not in self._alone:
                self._alone[key] = self._find_memory(start, stop, is_home=is_home)
            alone, waiting_bytes = self._alone[key]
            pieces = alone.pieces + (self._problem.options.in_flight - 1) * waiting_bytes
            use = self._memory[key] = replace(alone, pieces=pieces)
        return use

    def fragment_memory(self, start: int, stop: int) -> MemoryUse:
        """The memory of layers ``start`` to ``stop`` as one fragment, for one request."""
        use = self._fragments.get((start, stop))
        if use is None:
            use = self._problem.cost.work_memory(self.works.work(start, stop))
            self._fragments[start, stop] = use
        return use

    def _find_memory(self, start: int, stop: int, *, is_home: bool) -> tuple[MemoryUse, int]:
        """The memory of a range for one request, and what each more in flight takes."""
        work, alone = self.works.work(start, stop), self.fragment_memory(start, stop)
        graph = self._outline.graph
        made = self._bytes(tensor for tensor, _ in work.outputs)
        states = [alone.pieces - made, made]
        own = alone.pieces
        if is_home:
            read = dict(work.inputs)
            waiting = self._bytes(
                t for t in self._outline.live(start) if t in graph.inputs and t not in read
            )
            ends = [self._bytes(graph.inputs), self._bytes(graph.outputs)]
            states = [*ends, *(size + waiting for size in states)]
            own = max(own + waiting, *ends)
        return replace(alone, pieces=own), max(states)

    def _bytes(self, tensors: Iterable[str]) -> int:
        return sum(map(self._outline.size_bytes, tensors))

    def move_s(self, position: int, source: str, target: str) -> float:
        """The seconds to move all tensors that cross a cut; infinite without a link.

        Messages of one link are sent one after the other, and all but the last are thought to be
        decoded meanwhile.
        """
        return self._move(position, source, target)[0]

    def busy_s(self, position: int, source: str, target: str) -> float:
        """The seconds for which that keeps the link busy; infinite without a link."""
        return self._move(position, source, target)[1]

    def lanes_s(self, position: int, source: str, target: str) -> dict[Lane, float]:
        """The seconds for which that keeps the link, its medium and its ports busy."""
        link = self._problem.cluster.link(source, target)
        live = self._outline.live(position)
        if source == target or not live or link is None:
            return {}
        lanes: dict[Lane, float] = {link.pair: self.busy_s(position, source, target)}
        sizes = [self._problem.wire_bytes(tensor) for tensor in live]
        if link.medium is not None:
            lanes[link.medium] = sum(map(link.occupied_s, sizes))
        return lanes | {port: sum(sizes) / port.bytes_per_s for port in link.ports}

    def _move(self, position: int, source: str, target: str) -> tuple[float, float]:
        if source == target or not self._outline.live(position):
            return 0.0, 0.0
        key = (position, source, target)
        seconds = self._moves.get(key)
        if seconds is None:
            seconds = self._moves[key] = self._price_move(position, source, target)
        return seconds

    def _price_move(self, position: int, source: str, target: str) -> tuple[float, float]:
        problem, outline = self._problem, self._outline
        link = problem.cluster.link(source, target)
        live = outline.live(position)
        if link is None or not set(live).isdisjoint(problem.options.keep_on):
            return inf, inf
        busy_s = decode_s = 0.0
        for tensor in live:
            seconds = problem.cost.transfer_s(source, target, problem.wire_bytes(tensor))
            busy_s += seconds - link.latency_s
            if self._codec is not None:
                wire, size = problem.formats.get(tensor, "raw"), problem.coded_bytes(tensor)
                busy_s += self._codec.encode_s(source, wire, size)
                decode_s = self._codec.decode_s(target, wire, size)
        return busy_s + link.latency_s + decode_s, busy_s


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
