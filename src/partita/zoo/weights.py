"""The weights of a model that is written: drawn from a seed, or given."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from partita.errors import ModelError

Array = npt.NDArray[np.float32]


class DrawnWeights:
    """Weights that depend on the seed and their name alone, not on the order of calls.

    Args:
        filled: Whether they have values; without them a model can be counted, not run.
    """

    def __init__(self, seed: int, *, filled: bool = True) -> None:
        self.seed = seed
        self._filled = filled

    def spread(self, name: str, shape: tuple[int, ...], deviation: float) -> Array:
        """Numbers around 0."""
        if not self._filled:
            return np.broadcast_to(np.float32(0), shape)
        # Uniform, as PyTorch initialises: a third of the time of normal numbers, and VGG has 1.4e8.
        values = self._random(name).random(shape, dtype=np.float32)
        values -= np.float32(0.5)
        values *= np.float32(deviation * math.sqrt(12))
        return values

    def small(self, name: str, count: int) -> Array:
        """Normal numbers near 0, as biases."""
        return self._random(name).standard_normal(count, dtype=np.float32) * np.float32(0.1)

    def uniform(self, name: str, count: int, low: float, high: float) -> Array:
        """Numbers of a range, as scales."""
        return self._random(name).uniform(low, high, count).astype(np.float32)

    def written(self, name: str, value: Array) -> Array | None:
        """What is written for a weight that was drawn, if anything is."""
        return value if self._filled else None

    def _random(self, name: str) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64([self.seed, zlib.crc32(name.encode())]))


class GivenWeights(DrawnWeights):
    """Weights that somebody has, by name."""

    def __init__(self, values: Mapping[str, Array]) -> None:
        super().__init__(0, filled=False)
        self._values = values

    def written(self, name: str, value: Array) -> Array:
        """The weight of this name.

        Raises:
            ModelError: There is none of this shape.
        """
        found = self._values.get(name)
        if found is None or found.shape != value.shape:
            has = "there is none" if found is None else f"it is {found.shape}"
            raise ModelError(f"weight {name}: expected {value.shape}, and {has}")
        return found
