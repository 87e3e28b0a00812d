"""Seven ways to say how long a layer takes: one interface, one registry.

The table is what was measured; the others are the simpler models that papers use, and differ from
it where devices are not linear in the number of rows. Two need no profile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.spatial import KDTree

from partita.cluster import Array, CatalogueEntry
from partita.cost.amount import Amount
from partita.cost.systolic import layer_s
from partita.errors import ClusterError
from partita.profile import Profile, Sample
from partita.program import type_bytes

Floats = npt.NDArray[np.float64]


class Estimator(Protocol):
    """Says how long layers take on one device."""

    def curve(self, amount: Amount) -> Sequence[float]:
        """Seconds for 0, 1, ... up to all of the layer's output rows.

        Never negative, never falling, and 0 for 0 rows.
        """


@dataclass(frozen=True)
class Sources:
    """What an estimator may learn from.

    Attributes:
        device: Name for messages.
        precision: Number format to compute in.
        byte_share: Size of a number in that format over that in the graph.
        array: What the device is, where it is a systolic array.
    """

    device: str
    amounts: Mapping[str, Amount]
    profile: Profile | None
    entry: CatalogueEntry | None
    precision: str = "float32"
    byte_share: float = 1.0
    array: Array | None = None

    def measured(self) -> Profile:
        """The profile.

        Raises:
            ClusterError: There is none.
        """
        if self.profile is None:
            raise ClusterError(
                f"Device {self.device!r} has no profile: this estimator needs one. Measure it with"
                " 'partita profile MODEL -o FILE' and name FILE in the cluster file, or use the"
                " roofline estimator with a kind of the catalogue.",
                subject=self.device,
            )
        return self.profile

    def samples(self, amount: Amount) -> tuple[Sample, ...]:
        """The layer's samples.

        Raises:
            ClusterError: The profile does not have the layer.
        """
        layer = self.measured().layers.get(amount.layer)
        if layer is None or not layer.samples:
            raise ClusterError(
                f"Profile of device {self.device!r} has no layer {amount.layer!r}: it is of"
                " another model. Measure this model with 'partita profile'.",
                subject=amount.layer,
            )
        return layer.samples

    def points(self) -> list[tuple[Amount, Sample]]:
        """All samples that took time, with the amount of their layer."""
        return [
            (self.amounts[name], sample)
            for name, layer in self.measured().layers.items()
            if name in self.amounts
            for sample in layer.samples
            if sample.seconds > 0
        ]


def rising(seconds: Sequence[float] | Floats) -> list[float]:
    """Seconds for 0, 1, ... rows out of those for 1, 2, ...: not negative, not falling."""
    kept = np.maximum.accumulate(np.maximum(np.asarray(seconds, float), 0.0))
    return [0.0, *kept.tolist()]


def _rows(amount: Amount) -> Floats:
    return np.arange(1, amount.rows + 1, dtype=float)


class Table:
    """Interpolation between measured extents; below the least, the line of the first two."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def curve(self, amount: Amount) -> Sequence[float]:
        """The layer's seconds; see :meth:`Estimator.curve`."""
        samples = _without_humps(self._sources.samples(amount))
        rows = np.array([sample.rows for sample in samples], float)
        seconds = np.array([sample.seconds for sample in samples])
        asked = _rows(amount)
        inside = np.interp(asked, rows, seconds)
        if len(rows) > 1:
            inside = _extend(asked, inside, rows, seconds)
        elif rows[0] != amount.rows:
            inside = seconds[0] * asked / rows[0]
        return rising(inside)


def _extend(asked: Floats, inside: Floats, rows: Floats, seconds: Floats) -> Floats:
    """``inside`` with the end lines drawn on where no extent was measured."""
    first = (seconds[1] - seconds[0]) / (rows[1] - rows[0])
    last = (seconds[-1] - seconds[-2]) / (rows[-1] - rows[-2])
    below = np.maximum(seconds[0] + first * (asked - rows[0]), seconds[0] * asked / rows[0])
    above = seconds[-1] + last * (asked - rows[-1])
    return np.where(asked < rows[0], below, np.where(asked > rows[-1], above, inside))


def _without_humps(samples: Sequence[Sample]) -> list[Sample]:
    """Samples without those that noise made slower than a larger extent."""
    kept: list[Sample] = []
    for sample in reversed(samples):
        if not kept or sample.seconds <= kept[-1].seconds:
            kept.append(sample)
        else:
            kept.append(Sample(sample.rows, kept[-1].seconds, sample.count, sample.spread_s))
    return kept[::-1]


class Linear:
    """One line per layer, errors weighed by the square of 1 / seconds."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def curve(self, amount: Amount) -> Sequence[float]:
        """The layer's seconds; see :meth:`Estimator.curve`."""
        samples = self._sources.samples(amount)
        rows = np.array([sample.rows for sample in samples], float)
        seconds = np.array([sample.seconds for sample in samples])
        basis = np.stack([np.ones_like(rows), rows], axis=1)
        fixed, slope = _fit(basis, seconds)
        return rising(fixed + slope * _rows(amount))


class PiecewiseLinear:
    """Two lines per layer that meet at a quarter of the rows."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def curve(self, amount: Amount) -> Sequence[float]:
        """The layer's seconds; see :meth:`Estimator.curve`."""
        samples = self._sources.samples(amount)
        rows = np.array([sample.rows for sample in samples], float)
        seconds = np.array([sample.seconds for sample in samples])
        knots = np.unique([1.0, max(1.0, amount.rows / 4), float(amount.rows)])
        values = _fit(_hats(rows, knots), seconds)
        return rising(_hats(_rows(amount), knots) @ values)


def _hats(rows: Floats, knots: Floats) -> Floats:
    """The weight of each knot's value at each number of rows."""
    units = np.eye(len(knots))
    return np.stack([np.interp(rows, knots, unit) for unit in units], axis=1)


def _fit(basis: Floats, seconds: Floats) -> Floats:
    """Coefficients that are not negative and make the least relative squares."""
    weights = 1 / np.maximum(seconds, 1e-7)
    coefficients, _ = nnls(basis * weights[:, None], seconds * weights)
    return np.asarray(coefficients, float)


class Regression:
    """Per kind of layer: a fixed part, one per multiply-accumulate, one per byte."""

    def __init__(self, sources: Sources) -> None:
        gathered: dict[str, list[tuple[Floats, float]]] = {}
        for amount, sample in sources.points():
            point = (_features(amount, np.array(float(sample.rows))), sample.seconds)
            gathered.setdefault(amount.group, []).append(point)
        everything = [point for points in gathered.values() for point in points]
        self._all = self._solve(everything)
        self._groups = {group: self._solve(points) for group, points in gathered.items()}

    @staticmethod
    def _solve(points: Sequence[tuple[Floats, float]]) -> Floats:
        if not points:
            return np.zeros(3)
        return _fit(np.array([x for x, _ in points]), np.array([y for _, y in points]))

    def curve(self, amount: Amount) -> Sequence[float]:
        """The layer's seconds; see :meth:`Estimator.curve`."""
        factors = self._groups.get(amount.group, self._all)
        return rising(_features(amount, _rows(amount)) @ factors)


def _features(amount: Amount, rows: Floats) -> Floats:
    """Per number of rows: one, multiply-accumulates and bytes, in billions."""
    columns = (np.ones_like(rows), amount.macs_at(rows) * 1e-9, amount.bytes_at(rows) * 1e-9)
    return np.stack(columns, axis=-1)


class Neighbours:
    """The mean of the most similar measured layers and extents, weighed by likeness.

    Likeness is in the logarithms of multiply-accumulates and bytes, and the group; what is averaged
    is seconds per unit of work, so that a neighbour of another size is scaled.
    """

    _COUNT = 3
    _GROUPS = ("dense", "winograd", "depthwise", "stream")

    def __init__(self, sources: Sources) -> None:
        points: list[Floats] = []
        rates: list[float] = []
        for amount, sample in sources.points():
            rows = np.array([float(sample.rows)])
            points.append(self._points(amount, rows)[0])
            rates.append(np.log(sample.seconds / self._work(amount, rows)[0]))
        self._tree = KDTree(points) if points else None
        self._rates = np.array(rates)

    @staticmethod
    def _work(amount: Amount, rows: Floats) -> Floats:
        return amount.macs_at(rows) + amount.bytes_at(rows) + 1.0

    def _points(self, amount: Amount, rows: Floats) -> Floats:
        """One line per number of rows."""
        sizes = (amount.macs_at(rows) + 1, amount.bytes_at(rows) + 1)
        fixed = [np.log(amount.channels), *(10.0 * (amount.group == n) for n in self._GROUPS)]
        columns = (*np.log(sizes), *(np.full_like(rows, value) for value in fixed))
        return np.stack(columns, axis=1)

    def curve(self, amount: Amount) -> Sequence[float]:
        """The layer's seconds; see :meth:`Estimator.curve`."""
        if self._tree is None:
            return [0.0] * (amount.rows + 1)
        rows = _rows(amount)
        ranks = range(1, min(self._COUNT, len(self._rates)) + 1)
        distances, places = self._tree.query(self._points(amount, rows), ranks)
        return rising(
            np.exp(_weighted_mean(self._rates[places], distances)) * self._work(amount, rows)
        )


def _weighted_mean(values: Floats, distances: Floats) -> Floats:
    """The means of rows of ``values`` by the inverse of ``distances``; of those at 0 where any is.

    Both have the shape (points, neighbours).
    """
    is_same = distances == 0
    with np.errstate(divide="ignore"):
        weights = np.where(is_same.any(axis=1, keepdims=True), is_same, 1 / distances)
    return np.asarray(np.average(values, axis=1, weights=weights))


class Roofline:
    """Peak rates and efficiencies of the catalogue; needs no profile.

    Rows and channels are computed in tiles, and a part of a tile costs a whole one, so that the
    curve is a staircase.

    Raises:
        ClusterError: The device is of no kind that the catalogue knows.
    """

    def __init__(self, sources: Sources) -> None:
        if sources.entry is None:
            raise ClusterError(
                f"Device {sources.device!r} is of no kind that the catalogue knows: the roofline"
                " estimator needs one. Give the device a kind, or measure a profile.",
                subject=sources.device,
            )
        self._entry = sources.entry
        peaks = sources.entry.peak_macs_per_s
        self._peak = peaks.get(sources.precision, next(iter(peaks.values())))
        self._byte_share = sources.byte_share if sources.precision in peaks else 1.0

    def curve(self, amount: Amount) -> Sequence[float]:
        """The layer's seconds; see :meth:`Estimator.curve`."""
        entry, rows = self._entry, _rows(amount)
        efficiency = {
            "winograd": entry.winograd_efficiency,
            "depthwise": entry.depthwise_efficiency,
        }.get(amount.group, entry.efficiency)
        tiled_rows = np.ceil(rows / entry.tile_rows) * entry.tile_rows
        tiles = ceil(amount.channels / entry.tile_channels) * entry.tile_channels
        macs = amount.macs_at(tiled_rows) * tiles / amount.channels
        compute_s = macs / (self._peak * efficiency)
        rate = entry.memory_bytes_per_s * entry.bandwidth_efficiency
        return rising(np.maximum(compute_s, amount.bytes_at(rows) * self._byte_share / rate))


class Systolic:
    """Steps of a systolic array and bytes of its memory; needs no profile.

    Numbers that are not quantised have 16 bits at most, whatever they have in the graph.

    Raises:
        ClusterError: The device is no array.
    """

    def __init__(self, sources: Sources) -> None:
        if sources.array is None:
            raise ClusterError(
                f"Device {sources.device!r} is no systolic array: the systolic estimator needs one."
                " Give the device an array or a kind of the catalogue that is one.",
                subject=sources.device,
            )
        self._array = sources.array
        self._bits = 8 * type_bytes(sources.precision)

    def curve(self, amount: Amount) -> Sequence[float]:
        """The layer's seconds; see :meth:`Estimator.curve`."""
        return rising(layer_s(self._array, amount, _rows(amount), self._bits))


ESTIMATORS: dict[str, Callable[[Sources], Estimator]] = {
    "table": Table,
    "linear": Linear,
    "piecewise_linear": PiecewiseLinear,
    "knn": Neighbours,
    "regression": Regression,
    "roofline": Roofline,
    "systolic": Systolic,
}
#: Those that learn nothing from profiles.
UNLEARNED = frozenset(("roofline", "systolic"))


def make_estimator(name: str, sources: Sources) -> Estimator:
    """The estimator called ``name``.

    Raises:
        ClusterError: There is none of that name, or its sources are missing.
    """
    check_estimator(name)
    return ESTIMATORS[name](sources)


def check_estimator(name: str) -> None:
    """Refuse a name that no estimator has.

    Raises:
        ClusterError: There is none of that name.
    """
    if name not in ESTIMATORS:
        known = ", ".join(ESTIMATORS)
        message = f"Estimator {name!r} is unknown: known are {known}."
        raise ClusterError(message, subject=name)
