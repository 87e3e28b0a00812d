"""The best ranges where each device has one at most, by counts of devices per kind.

A state is how many devices of each kind are taken, which kind has the last range, and where that
ends. All places are one row of an array, and all counts of one size are its rows.
"""

from __future__ import annotations

from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from partita.planners.simple.cutting.tables import CutTables, Step, Table, Terms

#: More numbers than this in all states take too much memory: 240 MB. Not tuned.
_MOST_NUMBERS = 30_000_000
#: More states than this, places apart, take too long. Not tuned.
_MOST_STATES = 1_000_000


def can_count(tables: CutTables) -> bool:
    """Whether the states are few enough."""
    states = prod(len(names) + 1 for names in tables.kinds) * len(tables.kinds)
    return states <= _MOST_STATES and states * (tables.count + 1) <= _MOST_NUMBERS


class Once:
    """The best ranges by some terms, each device once.

    Attributes:
        value: Of the best; infinite where there is none.
    """

    def __init__(self, tables: CutTables, terms: Terms) -> None:
        self._terms = terms
        self._kinds, self._source = len(tables.kinds), tables.source
        self._counts = [len(names) for names in tables.kinds]
        self._radix = [prod(n + 1 for n in self._counts[:k]) for k in range(self._kinds)]
        self._width = tables.count + 1
        self.value = inf
        self._end: tuple[int, int, int] | None = None
        #: Per number of devices: the codes of their counts, and by them, last kind and place what
        #: has been spent.
        self._levels: list[tuple[NDArray[np.int64], Table]] = []
        self._run()

    def steps(self) -> list[Step]:
        """The ranges of the best; none where there is none."""
        if self._end is None:
            return []
        level, code, kind = self._end
        stop, steps = self._width - 1, []
        while level:
            level, code = level - 1, code - self._radix[kind]
            arrived = self._arrived(level, self._spent(level, code)[None], kind)[0]
            reached = self._terms.combine(arrived, self._terms.work[kind, :, stop])
            start = int(np.argmin(np.where(np.arange(self._width) < stop, reached, inf)))
            steps.append((kind, start, stop))
            if level:
                before = self._terms.combine(
                    self._spent(level, code)[:, start], self._terms.move[: self._kinds, kind, start]
                )
                kind = int(np.argmin(before))
            stop = start
        return steps[::-1]

    def _run(self) -> None:
        codes = np.zeros(1, dtype=np.int64)
        spent = np.full((1, self._kinds, self._width), inf)
        while len(codes):
            self._levels.append((codes, spent))
            codes, spent = self._longer(len(self._levels) - 1)
            self._note(codes, spent)

    def _longer(self, level: int) -> tuple[NDArray[np.int64], Table]:
        """All states with one device more."""
        codes, spent = self._levels[level]
        found = []
        for kind in range(self._kinds):
            free = codes // self._radix[kind] % (self._counts[kind] + 1) < self._counts[kind]
            arrived = self._arrived(level, spent[free], kind)
            done = self._work(arrived, kind)
            kept = np.isfinite(done).any(axis=1)
            found.append((kind, codes[free][kept] + self._radix[kind], done[kept]))
        after = np.unique(np.concatenate([one[1] for one in found]))
        longer = np.full((len(after), self._kinds, self._width), inf)
        for kind, reached, done in found:
            longer[np.searchsorted(after, reached), kind] = done
        return after, longer

    def _arrived(self, level: int, spent: Table, kind: int) -> Table:
        """What is spent when a range of a kind can begin, by counts and place."""
        move, combine = self._terms.move, self._terms.combine
        if not level:
            arrived = np.full((len(spent), self._width), inf)
            arrived[:, 0] = combine(0.0, move[self._source, kind, 0])
            return arrived
        before: Table = combine(spent, move[None, : self._kinds, kind]).min(axis=1)
        return before

    def _work(self, arrived: Table, kind: int) -> Table:
        """What is spent at the end of a range, by counts and place."""
        work, combine = self._terms.work[kind], self._terms.combine
        done = np.full_like(arrived, inf)
        for start in range(self._width - 1):
            stops = np.flatnonzero(np.isfinite(work[start]))
            rows = np.flatnonzero(np.isfinite(arrived[:, start]))
            if len(stops) and len(rows):
                span = slice(int(stops[0]), int(stops[-1]) + 1)
                spent = combine(arrived[rows, start, None], work[start, span])
                done[rows, span] = np.minimum(done[rows, span], spent)
        return done

    def _note(self, codes: NDArray[np.int64], spent: Table) -> None:
        """Keep the best that is complete, and forget what cannot become better."""
        if not len(codes):
            return
        back = self._terms.move[: self._kinds, self._source, -1]
        ended = self._terms.combine(spent[:, :, -1], back)
        row, kind = np.unravel_index(int(np.argmin(ended)), ended.shape)
        if ended[row, kind] < self.value:
            self.value = float(ended[row, kind])
            self._end = (len(self._levels), int(codes[row]), int(kind))
        spent[:, :, :-1][spent[:, :, :-1] >= self.value] = inf

    def _spent(self, level: int, code: int) -> Table:
        codes, spent = self._levels[level]
        row: Table = spent[int(np.searchsorted(codes, code))]
        return row
