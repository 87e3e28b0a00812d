"""Ranges on devices that may be used again: every way on small problems, a beam on others.

Layers that no device has memory for are divided: among as few devices as hold them, and among more.

From the first layer to the last, beginnings of plans are kept at each place, as long as their floor
is below what is known. On small problems one is dropped only for another that ends on the same
device and is nowhere worse; on others the most promising ones stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple, TypeVar

import numpy as np

from partita.cost import MemoryUse
from partita.cost.memory import one_by_one
from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.pricing.range_costs import Lane, cut_positions
from partita.planners.simple.cutting.once import can_count
from partita.planners.simple.cutting.tables import CutTables, Step, Table
from partita.planners.simple.dividing import MOST_PARTS, divide_layer, fewest_parts, part_uses

#: Problems of which every way is looked at.
MOST_LAYERS, MOST_DEVICES = 12, 4
#: Beginnings kept at a place elsewhere: more take longer, fewer miss plans. Not tuned.
_WIDTH = 24
#: For a first plan, where none is known that others must be better than. Not tuned.
_GUESS_WIDTH = 6
#: Of the beginnings kept so far, so many are asked whether they are nowhere worse: of 0, 64, 256
#: and all, 64 was fastest on 90 drawn chains of 12 layers on 4 devices.
_MOST_COMPARED = 64
#: Part of a score by which another must be better: what is equal is no news.
_EQUAL = 1e-9
_T = TypeVar("_T")
_NOTHING = one_by_one(())


class _Begun(NamedTuple):
    """A beginning of a plan.

    Attributes:
        spent_s: The latency so far.
        units: What its devices have done, in seconds of the best device for it.
        devices: Numbers of those of the last stage; none for the requester.
        busy_s: Of each device.
        lanes_s: Busy seconds of links, and of mediums and ports that they share.
        memory: Of each device.
        stages: Its ranges.
    """

    spent_s: float
    units: float
    devices: tuple[int, ...]
    busy_s: tuple[float, ...]
    lanes_s: dict[Lane, float]
    memory: tuple[MemoryUse, ...]
    stages: Draft


class _Part(NamedTuple):
    """What one device does of a stage.

    Attributes:
        seconds: With what it swaps where it does nothing else.
        use: Its memory then; empty where memory is not scarce.
    """

    device: int
    seconds: float
    use: MemoryUse


def is_small(tables: CutTables) -> bool:
    """Whether every way is looked at."""
    devices = sum(map(len, tables.kinds))
    return tables.count <= MOST_LAYERS and devices <= MOST_DEVICES


class Again:
    """The best ranges on devices that may be used again.

    Args:
        in_flight: Requests under way together, where seconds per request count; 0 for the latency.
        known: Other plans: only what is better is of use.
        left_s: The least seconds from the end of a range to the answer, by kind and place.
        below_s: What is reached elsewhere: only what is better is of use.

    Attributes:
        limit_s: What is reached by the best plan known; after :meth:`draft` with the one found.
    """

    def __init__(
        self,
        tables: CutTables,
        in_flight: int,
        known: Sequence[Draft],
        left_s: Table,
        *,
        below_s: float = inf,
    ) -> None:
        self._tables, self._in_flight, self._left_s = tables, in_flight, left_s
        self._names = [name for names in tables.kinds for name in names]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._kinds = [k for k, names in enumerate(tables.kinds) for _ in names]
        fastest_s = tables.layer_s.min(axis=0)
        self._left_units = np.cumsum([0.0, *fastest_s[::-1]])[::-1]
        shares = np.divide(
            *(fastest_s, tables.layer_s), out=np.ones_like(tables.layer_s), where=tables.layer_s > 0
        )
        self._speeds: list[float] = [float(shares[kind].max()) for kind in self._kinds]
        self._is_all = is_small(tables)
        self._divided: dict[DraftStage, list[_Part]] = {}
        self._stops = self._find_stops(cut_positions(tables.evaluator.outline))
        self.limit_s = min([below_s, *map(self._replay, known)])

    def _find_stops(self, places: Sequence[int]) -> list[list[list[int]]]:
        """Where ranges may end, by kind and start; everywhere on small problems."""
        floor_s = self._tables.floor_s
        allowed = np.full(floor_s.shape[1], self._is_all)
        allowed[places] = True
        for place in self._tables.too_large:
            allowed[place : place + 2] = True
        return [
            [np.flatnonzero(np.isfinite(row) & allowed).tolist() for row in table]
            for table in floor_s
        ]

    def draft(self) -> Draft:
        """The best plan that is better than what is known; none where there is none."""
        best: Draft = ()
        if self.limit_s == inf:
            best = self._run(self._floor_of, _GUESS_WIDTH)
            if not best and not can_count(self._tables):  # little memory may need other places
                self._stops = self._find_stops(range(self._tables.count + 1))
                best = self._run(self._floor_of, _WIDTH)
            self.limit_s = self._replay(best) if best else inf
        for most in (_WIDTH, None) if self._is_all else (_WIDTH,):
            if better := self._run(self._tables.work_s, most):
                best, self.limit_s = better, self._replay(better)
        return best

    def _floor_of(self, step: Step) -> float:
        return float(self._tables.floor_s[step])

    def _replay(self, stages: Draft) -> float:
        """What a plan reaches; infinite where memory forbids it."""
        begun: _Begun | None = self._idle()
        for stage in stages:
            begun = begun and self._extend(begun, stage, self._parts(stage, self._tables.work_s))
        return inf if begun is None else self._floor(self._answer(begun), self._tables.count)

    def _idle(self) -> _Begun:
        count = len(self._names)
        return _Begun(0.0, 0.0, (), (0.0,) * count, {}, (_NOTHING,) * count, ())

    def _run(self, find: Callable[[Step], float], most: int | None) -> Draft:
        """The best plan below the limit if ranges take what ``find`` says; none if there is none.

        Args:
            most: Beginnings kept at a place; None for all that may be better.
        """
        limit_s = self.limit_s * (1 - _EQUAL)
        best: Draft = ()
        kept: list[list[_Begun]] = [[] for _ in range(self._tables.count + 1)]
        kept[0] = [self._idle()]
        for place in range(self._tables.count):
            begun_here = [one for one in kept[place] if self._floor(one, place) < limit_s]
            for begun in self._select(place, begun_here, most):
                if self._tables.evaluator.budget.is_late(1.0):
                    return best
                for stop, longer in self._longer(begun, place, find, limit_s):
                    if stop < self._tables.count:
                        kept[stop].append(longer)
                        continue
                    score_s = self._floor(self._answer(longer), stop)
                    if score_s < limit_s:
                        limit_s, best = score_s * (1 - _EQUAL), longer.stages
            kept[place] = []
        return best

    def _select(self, place: int, found: list[_Begun], most: int | None) -> list[_Begun]:
        """Those that are gone on with."""
        ranked = sorted(found, key=lambda begun: (self._floor(begun, place), begun.spent_s))
        if most is not None:
            return ranked[:most]
        kept: list[_Begun] = []
        lanes = list(dict.fromkeys(lane for begun in found for lane in begun.lanes_s))
        rows = np.array([self._row(begun, lanes) for begun in ranked])
        taken: dict[tuple[int, ...], list[int]] = {}
        for number, begun in enumerate(ranked):
            others = taken.setdefault(begun.devices, [])
            if not (rows[others[:_MOST_COMPARED]] <= rows[number]).all(axis=1).any():
                others.append(number)
                kept.append(begun)
        return kept

    def _row(self, begun: _Begun, lanes: Sequence[Lane]) -> list[float]:
        """What a beginning has used of everything: less in all is better."""
        row = [begun.spent_s]
        if self._in_flight:
            row += [*begun.busy_s, *(begun.lanes_s.get(lane, 0.0) for lane in lanes)]
        if self._tables.is_scarce:
            row += [
                n
                for use in begun.memory
                for n in (use.fragments, use.weights, use.pieces, use.arena)
            ]
        return row

    def _floor(self, begun: _Begun, place: int) -> float:
        """What no plan with this beginning is better than."""
        least_s = begun.spent_s
        if begun.devices:
            left_s = (self._left_s[self._kinds[device], place] for device in begun.devices)
            least_s += float(min(left_s))
        if not self._in_flight:
            return least_s
        fluid_s = float(begun.units + self._left_units[place]) / sum(self._speeds)
        busiest_s = max(*begun.busy_s, *begun.lanes_s.values(), 0.0)
        return max(busiest_s, fluid_s, least_s / self._in_flight)

    def _longer(
        self, begun: _Begun, start: int, find: Callable[[Step], float], limit_s: float
    ) -> Iterator[tuple[int, _Begun]]:
        """Yield all ways to go on with one range that may stay below the limit, by its end."""
        for device in self._candidates(begun):
            name, kind = self._names[device], self._kinds[device]
            for stop in self._stops[kind][start]:
                stage = DraftStage(start, stop, "none", (name,))
                least = self._extend(begun, stage, self._parts(stage, self._floor_of))
                if least is None or self._floor(least, stop) >= limit_s:
                    continue
                longer = self._extend(begun, stage, self._parts(stage, find))
                if longer is not None and self._floor(longer, stop) < limit_s:
                    yield stop, longer
        for stage in self._divisions(begun, start):
            longer = self._extend(begun, stage, self._parts(stage, find))
            if longer is not None and self._floor(longer, stage.stop) < limit_s:
                yield stage.stop, longer

    def _divisions(self, begun: _Begun, start: int) -> Iterator[DraftStage]:
        """Yield ways to divide the next layer, where it is too large for any device.

        Those with most room take part: as few as hold it, and as many as may; all where none do.
        """
        if start not in self._tables.too_large:
            return
        evaluator = self._tables.evaluator
        rooms = {
            name: self._tables.memory_bytes[kind] - use.total
            for name, kind, use in zip(self._names, self._kinds, begun.memory, strict=True)
        }
        order = sorted(rooms, key=lambda name: -rooms[name])[:MOST_PARTS]
        held = dict(zip(self._names, begun.memory, strict=True))
        stages = list(fewest_parts(evaluator, start, order, held))
        stages = stages or list(divide_layer(evaluator, start, order))[:1]
        yield from dict.fromkeys((*stages[:1], *stages[-1:]))

    def _parts(self, stage: DraftStage, find: Callable[[Step], float]) -> list[_Part]:
        """What each device does of a stage, a whole range for as long as ``find`` says."""
        tables = self._tables
        if stage.axis == "none":
            (name,) = stage.devices
            device = self._numbers[name]
            step = (self._kinds[device], stage.start, stage.stop)
            return [
                _Part(device, find(step), tables.memory(step) if tables.is_scarce else _NOTHING)
            ]
        if stage not in self._divided:
            uses = dict(part_uses(tables.evaluator, stage))
            self._divided[stage] = [
                _Part(self._numbers[name], seconds, uses[number])
                for number, (name, seconds) in enumerate(tables.evaluator.loads.of(stage))
            ]
        return self._divided[stage]

    def _extend(self, begun: _Begun, stage: DraftStage, parts: Sequence[_Part]) -> _Begun | None:
        """A beginning with one stage more; None where there is no link or no memory."""
        devices = tuple(part.device for part in parts)
        move_s, lanes_s = self._move(begun, devices, stage.start)
        if move_s == inf:
            return None
        units, longest_s, busy_s, memory = begun.units, 0.0, begun.busy_s, begun.memory
        for device, alone_s, alone in parts:
            memory, swap_s = self._remember(memory, device, alone)
            if memory[device].total > self._tables.limit_bytes[self._kinds[device]]:
                return None
            seconds = alone_s + swap_s
            units += seconds * self._speeds[device]
            busy_s = _with(busy_s, device, busy_s[device] + seconds)
            longest_s = max(longest_s, seconds)
        return _Begun(
            begun.spent_s + move_s + longest_s,
            units,
            devices,
            busy_s,
            lanes_s,
            memory,
            (*begun.stages, stage),
        )

    def _answer(self, begun: _Begun) -> _Begun:
        """A complete plan with its answer back at the requester."""
        move_s, lanes_s = self._move(begun, (), self._tables.count)
        return begun._replace(spent_s=begun.spent_s + move_s, devices=(), lanes_s=lanes_s)

    def _candidates(self, begun: _Begun) -> Iterator[int]:
        """Yield the devices used so far, and the first unused one of each kind."""
        fresh: set[int] = set()
        for device, kind in enumerate(self._kinds):
            if (device,) == begun.devices:
                continue
            if not begun.busy_s[device]:
                if kind in fresh:
                    continue
                fresh.add(kind)
            yield device

    def _move(
        self, begun: _Begun, targets: tuple[int, ...], place: int
    ) -> tuple[float, dict[Lane, float]]:
        """The seconds of a move to devices, and how busy all lanes are with it.

        Those of a divided layer send a part each, at the same time.
        """
        ranges, home = self._tables.evaluator.ranges, self._tables.evaluator.requester
        sources, ends = (
            [self._names[number] for number in numbers] or [home]
            for numbers in (begun.devices, targets)
        )
        pairs = [(source, end) for source in sources for end in ends]
        lanes_s = begun.lanes_s
        if self._in_flight:
            lanes_s = lanes_s.copy()
            for pair in pairs:
                for lane, seconds in ranges.lanes_s(place, *pair).items():
                    lanes_s[lane] = lanes_s.get(lane, 0.0) + seconds / len(sources)
        return max(ranges.move_s(place, *pair) for pair in pairs) / len(sources), lanes_s

    def _remember(
        self, memory: tuple[MemoryUse, ...], device: int, alone: MemoryUse
    ) -> tuple[tuple[MemoryUse, ...], float]:
        """The memory of all devices with one part more, and the seconds of swapping it adds.

        Beyond those that the part takes alone.
        """
        if not self._tables.is_scarce:
            return memory, 0.0
        kind, before = self._kinds[device], memory[device]
        use = one_by_one([before, alone])
        over_s, *known_s = (self._tables.swap_s(kind, one) for one in (use, before, alone))
        return _with(memory, device, use), over_s - sum(known_s)


def _with(values: tuple[_T, ...], place: int, value: _T) -> tuple[_T, ...]:
    return (*values[:place], value, *values[place + 1 :])
