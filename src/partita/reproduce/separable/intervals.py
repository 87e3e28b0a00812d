"""Differences of networks that were trained with the same seeds, and how sure they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import mean, stdev

from scipy.stats import t as student

from partita.reproduce.separable.results import TrainingResults

_CONFIDENCE = 0.9


@dataclass(frozen=True)
class Difference:
    """One kind of network less another, in points.

    Attributes:
        half: Half of the 90 % interval around the mean; infinite for one seed.
    """

    mean: float
    half: float
    seeds: int

    @property
    def low(self) -> float:
        """Least difference of the interval."""
        return self.mean - self.half

    @property
    def words(self) -> str:
        """Mean, interval and seeds."""
        if math.isinf(self.half):
            return f"{self.mean:+.2f} points, one seed: no interval"
        return (
            f"{self.mean:+.2f} points, 90 % interval {self.low:+.2f} to"
            f" {self.mean + self.half:+.2f}, {self.seeds} seeds"
        )


def difference(results: TrainingResults, part: str, one: str, other: str) -> Difference | None:
    """The mean paired difference of two kinds by Student's t; None without a common seed."""
    ours, theirs = results.find(part, one), results.find(part, other)
    gaps = [
        100 * (ours[seed].accuracy - theirs[seed].accuracy) for seed in ours.keys() & theirs.keys()
    ]
    if not gaps:
        return None
    half = math.inf
    if len(gaps) > 1:
        quantile = float(student.ppf((1 + _CONFIDENCE) / 2, len(gaps) - 1))
        half = quantile * stdev(gaps) / math.sqrt(len(gaps))
    return Difference(mean(gaps), half, len(gaps))
