"""A graph's constants: arrays by name, some of which are made when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from partita.regions import Array


class ArraySpec(NamedTuple):
    """What an array takes, whatever its values."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return self.size * self.dtype.itemsize


class _Later(NamedTuple):
    """An array that nobody has read."""

    spec: ArraySpec
    make: Callable[[], Array]


class Arrays(MutableMapping[str, Array]):
    """Arrays by name; those put there as what makes them are made once somebody reads them.

    A search for bits looks at the sizes of dozens of quantised networks and at the weights of none.
    """

    def __init__(self, arrays: Mapping[str, Array] | None = None) -> None:
        given = {} if arrays is None else arrays
        held = given._held if isinstance(given, Arrays) else given
        self._held: dict[str, Array | _Later] = dict(held)

    def __getitem__(self, name: str) -> Array:
        found = self._held[name]
        if isinstance(found, _Later):
            found = self._held[name] = found.make()
        return found

    def __setitem__(self, name: str, array: Array) -> None:
        self._held[name] = array

    def __delitem__(self, name: str) -> None:
        del self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def put_later(self, name: str, spec: ArraySpec, make: Callable[[], Array]) -> None:
        """Put an array there that is made when it is first read.

        Args:
            spec: Of what ``make`` makes.
        """
        self._held[name] = _Later(spec, make)

    def spec(self, name: str) -> ArraySpec:
        """Shape and type of an array, which is not made for that.

        Raises:
            KeyError: There is none.
        """
        found = self._held[name]
        return found.spec if isinstance(found, _Later) else ArraySpec(found.shape, found.dtype)

    def only(self, names: Collection[str]) -> Arrays:
        """Those of some names, in the order they are in."""
        kept = Arrays()
        kept._held = {name: held for name, held in self._held.items() if name in names}
        return kept
