"""The least sum of ranges and moves where nothing limits how often a device is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from partita.planners.simple.cutting.tables import CutTables, Step, Table


def least_chain(tables: CutTables, watts: Sequence[float] | None = None) -> list[Step]:
    """The ranges with the least sum of seconds, devices used again as one likes; none if none can.

    Their floors tell first which ranges can be part of it: only those are priced.

    Args:
        watts: By kind, for the least energy: moves then take nothing.
    """
    scale, move = [1.0] * len(tables.kinds), tables.next_s
    if watts is not None:
        scale, move = list(watts), np.where(np.isfinite(move), 0.0, inf)

    def find(step: Step) -> float:
        return scale[step[0]] * tables.work_s(step)

    floor = np.array(scale)[:, None, None] * tables.floor_s
    floors = Chain(floor, move, tables.source)
    guess = floors.steps()
    if not guess:
        return []
    needed = np.where(floors.through <= floors.total(guess, find) * (1 + 1e-9), floor, inf)
    return Chain(tables.exact(needed, inf, find), move, tables.source).steps()


class Chain:
    """The least that ranges and moves cost from the requester to every place, and back.

    Args:
        work: Of ranges, by kind, start and stop; infinite where not allowed.
        move: Of moves, by kind, kind and place.
        source: Number of the requester's kind.

    Attributes:
        left: From the end of a range to the answer, by kind and place.
        through: Of the whole way with a range, by kind, start and stop.
    """

    def __init__(self, work: Table, move: Table, source: int) -> None:
        self._work, self._move, self._source = work, move, source
        kinds, places = work.shape[:2]
        done = np.full((move.shape[0], places), inf)
        done[source, 0] = 0.0
        begun = np.full((kinds, places), inf)
        for place in range(places - 1):
            begun[:, place] = (done[:, place, None] + move[:, :kinds, place]).min(axis=0)
            later = done[:kinds, place + 1 :]
            np.minimum(later, begun[:, place, None] + work[:, place, place + 1 :], out=later)
        self.left = np.full((move.shape[0], places), inf)
        self.left[:, -1] = move[:, source, -1]
        self._rest = np.full((kinds, places), inf)  # from the start of a range
        for place in range(places - 2, -1, -1):
            rest = work[:, place, place + 1 :] + self.left[:kinds, place + 1 :]
            self._rest[:, place] = rest.min(axis=1)
            onward = move[:, :kinds, place] + self._rest[:, place]
            self.left[:, place] = onward.min(axis=1)
        self.through = begun[:, :, None] + work + self.left[:kinds, None, :]

    def steps(self) -> list[Step]:
        """The ranges of the best way; none where there is no way."""
        at, place, steps = self._source, 0, []
        kinds, last = len(self._rest), self._work.shape[1] - 1
        if not np.isfinite(self.left[at, 0]):
            return []
        while place < last:
            kind = int(np.argmin(self._move[at, :kinds, place] + self._rest[:, place]))
            ahead = self._work[kind, place] + self.left[kind]
            ahead[: place + 1] = inf
            stop = int(np.argmin(ahead))
            steps.append((kind, place, stop))
            at, place = kind, stop
        return steps

    def total(self, steps: Sequence[Step], find: Callable[[Step], float]) -> float:
        """What some ranges cost with their moves, if each costs what ``find`` says."""
        at, total = self._source, 0.0
        for kind, start, stop in steps:
            total += self._move[at, kind, start] + find((kind, start, stop))
            at = kind
        return total + float(self._move[at, self._source, -1])
