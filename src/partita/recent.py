"""What was used last, of what would grow with the months."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """A dictionary of the entries that were set last; older ones are forgotten.

    Whoever reads an entry that is to stay sets it again.

    Args:
        most: How many stay.
        given: Those to begin with, the oldest first.

    >>> seen = Recent(2, {"a": 1, "b": 2})
    >>> seen["a"] = 1
    >>> seen["c"] = 3
    >>> list(seen)
    ['a', 'c']
    """

    def __init__(self, most: int, given: Mapping[K, V] | None = None) -> None:
        super().__init__()
        self._most = most
        for key, value in (given or {}).items():
            self[key] = value

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        while len(self) > self._most:
            del self[next(iter(self))]
