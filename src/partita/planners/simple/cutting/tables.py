"""What ranges of layers and moves between them cost, as tables over kinds of devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partita.cost import MemoryUse
from partita.cost.arena import most_arena_bytes
from partita.cost.memory import MOST_COPIES
from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.simple.dividing import MOST_PARTS, is_too_large

Table = NDArray[np.float64]
#: A range on a kind of device: kind, first layer, first layer after it.
Step = tuple[int, int, int]


@dataclass(frozen=True)
class Terms:
    """What is made small over ranges and moves.

    Attributes:
        work: Of ranges, by kind, start and stop; infinite where not allowed.
        move: Of moves, by kind, kind and place.
        combine: ``numpy.add`` for the least sum, ``numpy.maximum`` for the least largest.
    """

    work: Table
    move: Table
    combine: Callable[..., Any]


class CutTables:
    """Ranges on kinds of devices: the same cost, the same links, the same memory.

    Attributes:
        kinds: Names of the devices of each kind that may compute.
        source: Number of the requester's kind: the last, one more than kinds, where it may not.
        floor_s: Seconds of a range by kind, start and stop that it surely takes; infinite where it
            may not run: not enough memory, or a layer that must be elsewhere.
        layer_s: Seconds that a layer surely takes in any range, by kind and layer.
        weight_bytes: Of ranges, by start and stop.
        memory_bytes: Of a device of each kind.
        limit_bytes: The most that it may hold, infinite where it may swap.
        is_scarce: Whether memory may forbid anything.
        too_large: Layers that no device has memory for.
        move_s: Seconds to move what crosses, by source kind, target kind and place; between two
            devices of one kind where both are the same number.
        busy_s: The same, as far as the link is busy.
        next_s: As ``move_s``, but the requester has its inputs and gets its own outputs, and a
            device that is the only one of its kind does not follow itself.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.count = len(evaluator.outline)
        self.kinds = find_kinds(evaluator)
        firsts = [names[0] for names in self.kinds]
        self.source = next(
            (k for k, d in enumerate(firsts) if d == evaluator.requester), len(firsts)
        )
        ends = firsts if self.source < len(firsts) else [*firsts, evaluator.requester]
        self.move_s, self.busy_s = self._moves(ends)
        self.next_s = self.move_s.copy()
        self.next_s[self.source, self.source, [0, -1]] = 0.0
        alone = [kind for kind, names in enumerate(self.kinds) if len(names) == 1]
        self.next_s[alone, alone, 1:-1] = inf
        self.memory_bytes = [evaluator.cluster.device(d).memory_bytes for d in firsts]
        self.limit_bytes = [evaluator.problem.limit_bytes(d) for d in firsts]
        self.weight_bytes = self._weights()
        most_bytes = self._most_bytes()
        self.is_scarce = bool(most_bytes.max() > min(self.memory_bytes))
        self.too_large = [
            place
            for place in range(self.count)
            if self.is_scarce and is_too_large(evaluator, place)
        ]
        floors = [self._floors(kind) for kind in range(len(firsts))]
        self.floor_s = np.stack([table for table, _ in floors])
        self.layer_s = np.stack([least for _, least in floors])
        for kind in range(len(firsts)):
            self._forbid(kind, most_bytes)

    def divided_floor_s(self) -> Table:
        """As ``floor_s``, where layers that are too large are divided among as many as may be."""
        table = self.floor_s.copy()
        for place in self.too_large:
            least_s = float(self.layer_s[:, place].min()) / MOST_PARTS
            np.minimum(table[:, place, place + 1], least_s, out=table[:, place, place + 1])
        return table

    def work_s(self, step: Step) -> float:
        """The seconds of a range."""
        kind, start, stop = step
        return self.evaluator.ranges.work_s(start, stop, self.kinds[kind][0])

    def memory(self, step: Step) -> MemoryUse:
        """The memory of a range, alone on its device."""
        kind, start, stop = step
        return self.evaluator.ranges.memory(start, stop, self.kinds[kind][0])

    def swap_s(self, kind: int, use: MemoryUse) -> float:
        """The seconds per request that a device of a kind takes for what does not fit."""
        return self.evaluator.problem.swap_s(self.kinds[kind][0], use)

    def share(self, step: Step) -> float:
        """The part of a device's memory that a range takes."""
        return self.memory(step).total / self.memory_bytes[step[0]]

    def total_s(self, steps: Sequence[Step]) -> float:
        """The seconds of ranges one after the other, each on another device, and of moves."""
        return sum(self._parts(steps, self.move_s))

    def busiest_s(self, steps: Sequence[Step]) -> float:
        """The seconds of the busiest device or link, where each range has another device."""
        return max(self._parts(steps, self.busy_s))

    def _parts(self, steps: Sequence[Step], move: Table) -> list[float]:
        parts, at = [], self.source
        for step in steps:
            parts += [float(move[at, step[0], step[1]]), self.work_s(step)]
            at = step[0]
        return [*parts, float(move[at, self.source, -1])]

    def exact(self, floor: Table, most: float, find: Callable[[Step], float]) -> Table:
        """What ranges cost whose floor is finite and at most ``most``; infinite elsewhere.

        When the time is spent, what is not known yet is infinite too.
        """
        table = np.full_like(floor, inf)
        for kind, start in np.argwhere((floor <= most).any(axis=2)).tolist():
            if self.evaluator.budget.is_late(1.0):
                break
            row = floor[kind, start]
            for stop in np.flatnonzero((row <= most) & np.isfinite(row)).tolist():
                table[kind, start, stop] = find((kind, start, stop))
        return table

    def draft(self, steps: Sequence[Step], *, once: bool) -> Draft:
        """Ranges on kinds as a draft.

        Args:
            once: Whether each has another device; else only those that follow their own kind.
        """
        taken, last = [0] * len(self.kinds), -1
        stages = []
        for kind, start, stop in steps:
            taken[kind] += kind == last and not once
            device = self.kinds[kind][taken[kind] % len(self.kinds[kind])]
            stages.append(DraftStage(start, stop, "none", (device,)))
            taken[kind], last = taken[kind] + once, kind
        return tuple(stages)

    def _moves(self, ends: Sequence[str]) -> tuple[Table, Table]:
        """Seconds of moves, and of links being busy, between all kinds at all places."""
        ranges = self.evaluator.ranges
        move_s = np.full((len(ends), len(ends), self.count + 1), inf)
        busy_s = np.full_like(move_s, inf)
        for one, source in enumerate(ends):
            for two, first in enumerate(ends):
                is_same = one == two
                target = self.kinds[two][-1] if is_same and two < len(self.kinds) else first
                for place in range(self.count + 1):
                    move_s[one, two, place] = ranges.move_s(place, source, target)
                    busy_s[one, two, place] = ranges.busy_s(place, source, target)
        return move_s, busy_s

    def _weights(self) -> Table:
        """The bytes of weights of each range."""
        table = np.zeros((self.count + 1, self.count + 1))
        for stop in range(1, self.count + 1):
            weights = self.evaluator.ranges.works.weights(stop)
            table[:stop, stop] = np.cumsum(weights[::-1])[::-1]
        return table

    def _floors(self, kind: int) -> tuple[Table, Table]:
        """The seconds of each range's layers on a kind, which no run is below; of each layer."""
        cost, device, works = self.evaluator.cost, self.kinds[kind][0], self.evaluator.ranges.works
        table = np.full((self.count + 1, self.count + 1), inf)
        least = np.full(self.count, inf)
        numbers = [works.boxes(stop) for stop in range(1, self.count + 1)]
        known = np.array(
            [
                cost.layer_s(device, one.layer, dict(one.boxes)) if one else 0.0
                for one in works.distinct
            ]
        )
        for stop, boxes in enumerate(numbers, start=1):
            seconds = known[boxes]
            table[:stop, stop] = np.cumsum(seconds[::-1])[::-1] * (1 - 1e-12)
            np.minimum(least[:stop], seconds, out=least[:stop])
        return table, least

    def _forbid(self, kind: int, most_bytes: Table) -> None:
        """Make ranges infinite that a kind has no memory for, or that are pinned elsewhere.

        Where it may swap, what surely does not fit takes its time. When the time is spent, what is
        not known to fit does not.
        """
        table, outline = self.floor_s[kind], self.evaluator.outline
        for place, device in outline.pins.items():
            if device not in self.kinds[kind]:
                table[: place + 1, place + 1 :] = inf
        most, may_swap = self.memory_bytes[kind], self.limit_bytes[kind] == inf
        unsure = (most_bytes > most) & np.isfinite(table)
        for start, stop in np.argwhere(unsure).tolist():
            step = (kind, start, stop)
            if may_swap:
                table[start, stop] += self.swap_s(kind, self.memory(step))
            elif (
                self.weight_bytes[start, stop] > most
                or self.evaluator.budget.is_late(1.0)
                or self.memory(step).total > most
            ):
                table[start, stop] = inf

    def _most_bytes(self) -> Table:
        """More memory than any range needs."""
        outline, graph = self.evaluator.outline, self.evaluator.graph
        ends = sum(map(graph.size_bytes, (*graph.inputs, *graph.outputs)))
        live = np.array(outline.live_bytes, dtype=float)
        pieces = live[:, None] + live[None, :] + ends
        rest = MemoryUse(1, 0, 0, most_arena_bytes(graph)).total
        copies = self.evaluator.options.in_flight + MOST_COPIES
        most: Table = self.weight_bytes + pieces * copies + rest
        return most


def find_kinds(evaluator: Evaluator) -> list[tuple[str, ...]]:
    """Devices that may compute, those together that no plan of whole ranges tells apart."""
    kinds: list[list[str]] = []
    costs: dict[str, object] = {}
    for device in evaluator.devices:
        costs[device] = _costs(evaluator, device)
        for kind in kinds:
            if costs[kind[0]] == costs[device] and _linked_alike(evaluator, kind[0], device):
                kind.append(device)
                break
        else:
            kinds.append([device])
    return [tuple(kind) for kind in kinds]


def _costs(evaluator: Evaluator, device: str) -> object:
    """What a device costs by itself; the name where it must be told from all others."""
    outline, ranges = evaluator.outline, evaluator.ranges
    limits = evaluator.options.energy_limits
    if device == evaluator.requester or device in outline.pins.values() or device in limits:
        return device
    count = len(outline)
    spans = [(0, count), *((place, place + 1) for place in range(count))]
    seconds = [ranges.work_s(start, stop, device) for start, stop in spans]
    watts = evaluator.problem.watts if evaluator.options.objective == "energy" else ()
    power = watts[evaluator.cluster.names.index(device)] if watts else 0.0
    own = evaluator.cluster.device(device)
    return seconds, own.memory_bytes, own.swap_bytes_per_s, own.port_bytes_per_s, power


def _linked_alike(evaluator: Evaluator, one: str, two: str) -> bool:
    """Whether exchanging two devices leaves all links and all moves as they are."""
    names = evaluator.cluster.names
    swapped = {one: two, two: one}
    return all(
        _link(evaluator, source, target)
        == _link(evaluator, swapped.get(source, source), swapped.get(target, target))
        for here in (one, two)
        for other in names
        if other != here
        for source, target in ((here, other), (other, here))
    )


def _link(evaluator: Evaluator, source: str, target: str) -> object:
    """What a link is to those who send over it: itself but for the names, and a message's price."""
    link = evaluator.cluster.link(source, target)
    if link is None:
        return None
    seconds = evaluator.ranges.move_s(0, source, target), evaluator.ranges.busy_s(0, source, target)
    return replace(link, source="", target="", ports=()), seconds
