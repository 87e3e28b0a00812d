"""Ranges on devices that may be used again: every way on small problems, a beam on others.

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
        device: Number of that of the last range; -1 for the requester.
        busy_s: Of each device.
        lanes_s: Busy seconds of links, and of mediums and ports that they share.
        memory: Of each device.
        stages: Its ranges.
    """

    spent_s: float
    units: float
    device: int
    busy_s: tuple[float, ...]
    lanes_s: dict[Lane, float]
    memory: tuple[MemoryUse, ...]
    stages: Draft


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
    """

    def __init__(
        self, tables: CutTables, in_flight: int, known: Sequence[Draft], left_s: Table
    ) -> None:
        self._tables, self._in_flight, self._left_s = tables, in_flight, left_s
        self._names = [name for names in tables.kinds for name in names]
        self._kinds = [k for k, names in enumerate(tables.kinds) for _ in names]
        fastest_s = tables.layer_s.min(axis=0)
        self._left_units = np.cumsum([0.0, *fastest_s[::-1]])[::-1]
        shares = np.divide(
            *(fastest_s, tables.layer_s), out=np.ones_like(tables.layer_s), where=tables.layer_s > 0
        )
        self._speeds: list[float] = [float(shares[kind].max()) for kind in self._kinds]
        self._is_all = is_small(tables)
        self._stops = self._find_stops(cut_positions(tables.evaluator.outline))
        self._limit_s = min(map(self._replay, known), default=inf)

    def _find_stops(self, places: Sequence[int]) -> list[list[list[int]]]:
        """Where ranges may end, by kind and start; everywhere on small problems."""
        floor_s = self._tables.floor_s
        allowed = np.full(floor_s.shape[1], self._is_all)
        allowed[places] = True
        return [
            [np.flatnonzero(np.isfinite(row) & allowed).tolist() for row in table]
            for table in floor_s
        ]

    def draft(self) -> Draft:
        """The best plan that is better than what is known; none where there is none."""
        best: Draft = ()
        if self._limit_s == inf:
            best = self._run(self._floor_of, _GUESS_WIDTH)
            if not best and not can_count(self._tables):  # little memory may need other places
                self._stops = self._find_stops(range(self._tables.count + 1))
                best = self._run(self._floor_of, _WIDTH)
            self._limit_s = self._replay(best) if best else inf
        for most in (_WIDTH, None) if self._is_all else (_WIDTH,):
            if better := self._run(self._tables.work_s, most):
                best, self._limit_s = better, self._replay(better)
        return best

    def _floor_of(self, step: Step) -> float:
        return float(self._tables.floor_s[step])

    def _replay(self, stages: Draft) -> float:
        """What a plan reaches; infinite where memory forbids it."""
        begun: _Begun | None = self._idle()
        for stage in stages:
            device = self._names.index(stage.devices[0])
            begun = begun and self._extend(begun, device, stage, self._tables.work_s)
        return inf if begun is None else self._floor(self._answer(begun), self._tables.count)

    def _idle(self) -> _Begun:
        count = len(self._names)
        return _Begun(0.0, 0.0, -1, (0.0,) * count, {}, (_NOTHING,) * count, ())

    def _run(self, find: Callable[[Step], float], most: int | None) -> Draft:
        """The best plan below the limit if ranges take what ``find`` says; none if there is none.

        Args:
            most: Beginnings kept at a place; None for all that may be better.
        """
        limit_s = self._limit_s * (1 - _EQUAL)
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
        taken: dict[int, list[int]] = {}
        for number, begun in enumerate(ranked):
            others = taken.setdefault(begun.device, [])
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
        if begun.device >= 0:
            least_s += float(self._left_s[self._kinds[begun.device], place])
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
                least = self._extend(begun, device, stage, self._floor_of)
                if least is None or self._floor(least, stop) >= limit_s:
                    continue
                longer = self._extend(begun, device, stage, find)
                if longer is not None and self._floor(longer, stop) < limit_s:
                    yield stop, longer

    def _extend(
        self, begun: _Begun, device: int, stage: DraftStage, find: Callable[[Step], float]
    ) -> _Begun | None:
        """A beginning with one range more; None where there is no link or no memory."""
        kind = self._kinds[device]
        step = (kind, stage.start, stage.stop)
        move_s, lanes_s = self._move(begun, device, stage.start)
        memory, swap_s = self._remember(begun.memory, device, step)
        if move_s == inf or memory[device].total > self._tables.limit_bytes[kind]:
            return None
        seconds = find(step) + swap_s
        return _Begun(
            begun.spent_s + move_s + seconds,
            begun.units + seconds * self._speeds[device],
            device,
            _with(begun.busy_s, device, begun.busy_s[device] + seconds),
            lanes_s,
            memory,
            (*begun.stages, stage),
        )

    def _answer(self, begun: _Begun) -> _Begun:
        """A complete plan with its answer back at the requester."""
        move_s, lanes_s = self._move(begun, -1, self._tables.count)
        return begun._replace(spent_s=begun.spent_s + move_s, device=-1, lanes_s=lanes_s)

    def _candidates(self, begun: _Begun) -> Iterator[int]:
        """Yield the devices used so far, and the first unused one of each kind."""
        fresh: set[int] = set()
        for device, kind in enumerate(self._kinds):
            if device == begun.device:
                continue
            if not begun.busy_s[device]:
                if kind in fresh:
                    continue
                fresh.add(kind)
            yield device

    def _move(self, begun: _Begun, target: int, place: int) -> tuple[float, dict[Lane, float]]:
        """The seconds of a move to a device, and how busy all lanes are with it."""
        ranges, home = self._tables.evaluator.ranges, self._tables.evaluator.requester
        pair = [self._names[end] if end >= 0 else home for end in (begun.device, target)]
        lanes_s = begun.lanes_s
        if self._in_flight:
            lanes_s = lanes_s.copy()
            for lane, seconds in ranges.lanes_s(place, *pair).items():
                lanes_s[lane] = lanes_s.get(lane, 0.0) + seconds
        return ranges.move_s(place, *pair), lanes_s

    def _remember(
        self, memory: tuple[MemoryUse, ...], device: int, step: Step
    ) -> tuple[tuple[MemoryUse, ...], float]:
        """The memory of all devices with one range more, and the seconds of swapping it adds.

        Beyond those that the range takes alone.
        """
        if not self._tables.is_scarce:
            return memory, 0.0
        kind, before, alone = step[0], memory[device], self._tables.memory(step)
        use = one_by_one([before, alone])
        over_s, *known_s = (self._tables.swap_s(kind, one) for one in (use, before, alone))
        return _with(memory, device, use), over_s - sum(known_s)


def _with(values: tuple[_T, ...], place: int, value: _T) -> tuple[_T, ...]:
    return (*values[:place], value, *values[place + 1 :])
