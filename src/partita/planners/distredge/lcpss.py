"""LC-PSS: where a network is cut into layer-volumes (DistrEdge, section IV-B, Algorithm 1).

Lines 4 to 10 of the published algorithm are not legible; this is what its text and its results say:
each round every volume is cut at the one place that lowers the score most, the rest as it was, and
rounds end when no volume was cut. The last layer starts as a volume of its own (a location is the
first layer of a volume, and the algorithm begins with the first and the last), which explains the
two volumes that the paper reports for alpha = 1.

The paper adds operations (10^10 of them) and transmitted amount (10^6) without a unit, so that any
alpha below 1 gives nearly the same. ``normalised`` divides both by what cutting everywhere costs;
``raw`` adds multiply-accumulates and elements as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from partita.planners.distredge.account import Account, Counter
from partita.planners.distredge.intervals import Rows, RowTables, random_cuts
from partita.planners.distredge.places import Run, Volume, find_runs
from partita.planners.drafts.layer_order import LayerOrder

Scores = Literal["normalised", "raw"]
#: Sums in another order differ by less than this, by some thousand roundings of doubles: no
#: improvement.
_SAME = 1e-12


@dataclass(frozen=True)
class PartitionOptions:
    """How volumes are chosen.

    Attributes:
        devices: Service providers, among which random splits divide.
        alpha: Weight of the transmitted amount; operations have the rest.
        decisions: Random split decisions whose scores are averaged.
        scores: Whether both amounts are normalised before they are added.
    """

    devices: int
    alpha: float = 0.75
    decisions: int = 100
    scores: Scores = "normalised"
    seed: int = 0


@dataclass(frozen=True)
class Partition:
    """Layer-volumes, and what they score.

    Attributes:
        volumes: In order; together all layers with rows.
        score: Mean score; with normalised scores 1 is that of cutting everywhere.
        account: Mean operations and elements.
    """

    volumes: tuple[Volume, ...]
    score: float
    account: Account
    evaluations: int


def find_partition(outline: LayerOrder, options: PartitionOptions) -> Partition:
    """The layer-volumes of a network; none where no layer can be divided in rows.

    A network that is interrupted (by a mean over space, say) has volumes that end there.
    """
    runs = find_runs(outline)
    if not runs:
        return Partition((), 0.0, Account(0.0, 0.0, 0.0, 0.0), 0)
    return _Search(outline, runs, options).run()


class RandomCuts:
    """Random split decisions: for each position its own sorted fractions of the height.

    Args:
        seed: Equal seeds draw equal splits.
    """

    def __init__(self, devices: int, decisions: int, seed: int) -> None:
        self._shape = (decisions, devices - 1)
        self._seed = seed
        self._known: dict[tuple[int, int], Rows] = {}

    def __call__(self, stop: int, rows: int) -> Rows:
        """The cuts of a volume that ends at ``stop``."""
        cuts = self._known.get((stop, rows))
        if cuts is None:
            fractions = np.random.default_rng((self._seed, stop)).random(self._shape)
            cuts = self._known[stop, rows] = random_cuts(fractions, rows)
        return cuts


class _Search:
    """Algorithm 1 on one network."""

    def __init__(self, outline: LayerOrder, runs: Sequence[Run], options: PartitionOptions) -> None:
        self._runs = runs
        self._options = options
        cuts = RandomCuts(options.devices, options.decisions, options.seed)
        self._counter = Counter(RowTables(outline), cuts)
        self._places = [place for run in runs for place in run.places]
        everywhere = self._counter.count(self._volumes(self._places))
        self._units = (everywhere.moved_elements or 1.0, everywhere.operations or 1.0)
        if options.scores == "raw":
            self._units = (1.0, 1.0)
        self._evaluations = 0

    def run(self) -> Partition:
        """The partition that no further cut of one volume improves."""
        starts: frozenset[int] = frozenset(self._places[-1:])
        while True:
            refined = starts | {
                cut for volume in self._volumes(starts) for cut in self._cut(starts, volume)
            }
            if refined == starts:
                break
            starts = refined
        volumes = self._volumes(starts)
        account = self._counter.count(volumes)
        return Partition(volumes, self._score(account), account, self._evaluations)

    def _volumes(self, starts: Sequence[int] | frozenset[int]) -> tuple[Volume, ...]:
        ordered = sorted(starts)
        return tuple(volume for run in self._runs for volume in run.volumes(ordered))

    def _score(self, account: Account) -> float:
        alpha, (moved, operations) = self._options.alpha, self._units
        return (
            alpha * account.moved_elements / moved + (1 - alpha) * account.operations / operations
        )

    def _cut(self, starts: frozenset[int], volume: Volume) -> Sequence[int]:
        """The place in a volume where a cut lowers the score most; none if it does nowhere.

        Among equal scores the place that moves fewer elements, then the first.
        """
        uncut = self._score(self._counter.count(self._volumes(starts)))
        limit = uncut - abs(uncut) * _SAME
        best: tuple[float, float, int] | None = None
        for inner in self._places:
            if volume.start < inner < volume.stop:
                self._evaluations += 1
                account = self._counter.count(self._volumes(starts | {inner}))
                candidate = (self._score(account), account.moved_elements, inner)
                if candidate[0] < limit and (best is None or _is_better(candidate, best)):
                    best = candidate
        return () if best is None else (best[2],)


def _is_better(new: tuple[float, float, int], old: tuple[float, float, int]) -> bool:
    if abs(new[0] - old[0]) <= abs(old[0]) * _SAME:
        return new[1] < old[1]
    return new[0] < old[0]
