"""Answered requests of a session: their times, in as little memory as a long run needs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from partita.leader.requests import Request


@dataclass(frozen=True, slots=True)
class PastRequest:
    """One answered request; its fields mean what those of :class:`Request` do."""

    index: int
    start_s: float
    end_s: float
    epoch: int
    number: int
    is_again: bool


_NAMES = tuple(field.name for field in fields(PastRequest))
_TYPES = (np.int64, np.float64, np.float64, np.int64, np.int64, np.bool_)
_RECORD = np.dtype(list(zip(_NAMES, _TYPES, strict=True)))
_values = attrgetter(*_NAMES)


class PastRequests:
    """The last answered requests, in the order of their answers; 41 bytes each.

    Args:
        most: Of which older ones are forgotten.
    """

    def __init__(self, most: int) -> None:
        # A ring; the system gives its memory as it is written to.
        self._records = np.zeros(most, _RECORD)
        self._count = 0

    def __len__(self) -> int:
        return min(self._count, len(self._records))

    def append(self, request: Request) -> None:
        """Keep one that was just answered."""
        self._records[self._count % len(self._records)] = _values(request)
        self._count += 1

    def last(self, count: int) -> list[PastRequest]:
        """The last ``count``, the oldest first."""
        return _read(self._ordered(min(count, len(self))))

    def since(self, first: int) -> list[PastRequest]:
        """Those with an index from ``first`` on, the oldest first."""
        records = self._ordered(len(self))
        return _read(records[records["index"] >= first])

    def first_end_s(self, after_s: float) -> float | None:
        """When the first answer after a time came; None where none did, or none that is known."""
        ends_s = self._ordered(len(self))["end_s"]
        has_forgotten = self._count > len(self._records)
        late_s = ends_s[ends_s > after_s]
        if not late_s.size or (has_forgotten and ends_s[0] > after_s):
            return None
        return float(late_s.min())

    def _ordered(self, count: int) -> npt.NDArray[Any]:
        places = np.arange(self._count - count, self._count)
        return self._records[places % len(self._records)]


def _read(records: npt.NDArray[Any]) -> list[PastRequest]:
    return [PastRequest(*record) for record in records.tolist()]
