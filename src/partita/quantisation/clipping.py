"""Which range codes cover: wide enough for the largest values, fine enough for the many.

Ranges are found for rows of values at once: the channels of a weight, or one row of the bins of an
activation's histogram with their counts. A range always holds 0, which always has a code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from partita.regions import Clipping, Packing

Floats = npt.NDArray[np.float32]
#: One number per row.
Row = npt.NDArray[np.float64]
#: Parts of the whole range that clipping tries, and exponents by which it then looks between two of
#: them. Tuned on rows of 500 Laplace numbers at 2 to 8 bits: the error is at most a tenth above the
#: least of 400 parts, which with few numbers and many steps has many such places.
_SHARE, _SHARES, _BETWEEN = 0.75, 13, (1 / 2, 1 / 4, 1 / 8)
_TINY = np.float32(np.finfo(np.float32).tiny)
#: Mantissas of scales where sums are to be exact: products of codes are then whole numbers of few
#: digits times a power of two, which single precision adds up without rounding to 24 digits, in any
#: order. Kernels of whole numbers multiply such a sum by both scales over that of what is made,
#: floats divide it by the latter: thirds are the same in both where the mantissa of their multiple
#: is 4/3 at least, so that weights have no 13 and no 14 eighths.
MADE_MANTISSAS = (1.0, 1.5)
WEIGHT_MANTISSAS = (1.0, 1.125, 1.25, 1.375, 1.5, 1.875)


@dataclass(frozen=True)
class Rows:
    """Numbers to be quantised row by row.

    Attributes:
        values: Of shape (rows, numbers).
        counts: How often each of a row's numbers occurs, in all rows; None for once.
    """

    values: Floats
    counts: npt.NDArray[np.float64] | None = None

    def mean(self, numbers: npt.NDArray[np.floating]) -> Row:
        """The mean of each row of ``numbers``, which belong to ``values``."""
        if self.counts is None:
            return np.asarray(numbers.mean(axis=1, dtype=np.float64))
        return np.asarray(numbers @ self.counts / self.counts.sum())


@dataclass(frozen=True)
class Coder:
    """What codes of a tensor are.

    Attributes:
        affine: Whether they cover a range, not one around 0.
        mantissas: Those that scales may have, from 1 up to below 2; empty for any.
    """

    bits: int
    affine: bool
    mantissas: tuple[float, ...] = ()

    def pack(self, low: Row, high: Row, axis: int | None = None) -> Packing:
        """The packing that covers ``low`` to ``high``, one number each where there is no axis.

        Around 0 the larger end counts. Of nothing but zeros the scale is 1.
        """
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        if not self.affine:
            high = np.maximum(high, -low)
            low = np.zeros_like(high)
        most = 2.0 ** (self.bits - (not self.affine)) - 1
        scale = np.asarray((high - low) / most, np.float32)
        scale = np.where(high > low, np.maximum(scale, _TINY), np.float32(1.0))
        if self.mantissas:
            scale = _round_up(scale, self.mantissas)
        zero = np.clip(np.rint(-low / scale), 0, most).astype(np.int32)
        if axis is None:
            scale, zero = scale.reshape(()), zero.reshape(())
        return Packing(self.bits, axis, scale, zero, signed=not self.affine)

    def error(self, rows: Rows, low: Row, high: Row, norm: float = 2.0) -> Row:
        """The mean of |value - its quantised value| ** norm, per row."""
        off = np.abs(self.pack(low, high, axis=0).round(rows.values) - rows.values)
        return rows.mean(off**norm if norm != 2.0 else off * off)

    def limits(self, rows: Rows, clipping: Clipping, norm: float = 2.0) -> tuple[Row, Row]:
        """The ends of each row's range.

        Args:
            clipping: ``max`` covers all numbers; ``mse`` makes the mean of |error| ** norm small;
                ``aciq`` solves for it as if numbers were Laplace or normal ones (ACIQ, Banner et
                al. 2018), and takes what of the two errs less for those that are there, or the
                whole range where that does.
        """
        low = np.minimum(rows.values.min(axis=1).astype(np.float64), 0.0)
        high = np.maximum(rows.values.max(axis=1).astype(np.float64), 0.0)
        if not self.affine:
            high = np.maximum(high, -low)
            low = -high
        if clipping == "mse":
            return self._search(rows, low, high, norm)
        if clipping == "aciq":
            return self._solve(rows, low, high)
        return low, high

    def _search(self, rows: Rows, low: Row, high: Row, norm: float) -> tuple[Row, Row]:
        """The best part of the whole range, both ends moved by one factor."""
        best = np.ones_like(high)
        least = self.error(rows, low, high, norm)
        powers = [np.full_like(high, power) for power in range(1, _SHARES)]
        for power in powers:
            best, least = self._better(rows, (low, high), norm, (best, least), _SHARE**power)
        for step in _BETWEEN:
            middle = best
            for factor in (_SHARE**step, _SHARE**-step):
                share = np.minimum(middle * factor, 1.0)
                best, least = self._better(rows, (low, high), norm, (best, least), share)
        return low * best, high * best

    def _better(
        self, rows: Rows, ends: tuple[Row, Row], norm: float, known: tuple[Row, Row], share: Row
    ) -> tuple[Row, Row]:
        best, least = known
        error = self.error(rows, ends[0] * share, ends[1] * share, norm)
        return np.where(error < least, share, best), np.minimum(error, least)

    def _solve(self, rows: Rows, low: Row, high: Row) -> tuple[Row, Row]:
        """ACIQ's range: the middle, and on both sides a multiple of how far numbers spread.

        Numbers of one sign, as behind a ReLU, are half of a distribution around 0: zeros apart, and
        its other half needs no codes, as if there were one bit more.
        """
        is_half = self.affine & ((low == 0) | (high == 0))
        share = rows.mean((rows.values != 0).astype(np.float64))
        counted = np.where(is_half, np.maximum(share, _TINY), 1.0)
        middle = np.where(is_half | (not self.affine), 0.0, rows.mean(rows.values))
        off = rows.values - middle[:, None]
        spread = rows.mean(np.abs(off)) / counted
        deviation = np.sqrt(rows.mean(off * off) / counted)
        best: tuple[Row, Row] = (low, high)
        least = self.error(rows, low, high)
        for factor, size in ((laplace_clip, spread), (normal_clip, deviation)):
            reach = size * np.where(is_half, factor(self.bits + 1), factor(self.bits))
            ends = np.maximum(low, middle - reach), np.minimum(high, middle + reach)
            error = self.error(rows, *ends)
            better = error < least
            best = np.where(better, ends[0], best[0]), np.where(better, ends[1], best[1])
            least = np.minimum(error, least)
        return best


def made_coder(bits: int, *, exact_sums: bool) -> Coder:
    """What codes of an activation are, which cover a range."""
    return Coder(bits, affine=True, mantissas=MADE_MANTISSAS if exact_sums else ())


def _round_up(scale: Floats, mantissas: tuple[float, ...]) -> Floats:
    """The nearest scales, not below, that have one of some mantissas.

    >>> _round_up(np.array([1.0, 1.1, 0.8], np.float32), (1.0, 1.5))
    array([1. , 1.5, 1. ], dtype=float32)
    """
    halves, powers = np.frexp(scale)
    steps = np.array([*mantissas, 2.0], np.float32)
    rounded: Floats = np.ldexp(steps[np.searchsorted(steps, 2 * halves)], powers - 1)
    return rounded


@cache
def laplace_clip(bits: int) -> float:
    """The best threshold for Laplace numbers, in mean distances from the middle (ACIQ, eq. 9).

    The sum of clipping noise ``2 exp(-a)`` and of rounding noise ``a**2 / (3 * 4**bits)`` has its
    least value where ``a exp(a) = 3 * 4**bits``.

    >>> round(laplace_clip(4), 2)
    5.03
    """
    from scipy.special import lambertw  # not for those who only read plans

    return float(lambertw(3.0 * 4.0**bits).real)


@cache
def normal_clip(bits: int) -> float:
    """The best threshold for normal numbers, in standard deviations (ACIQ, eq. 11).

    >>> round(normal_clip(4), 2)
    2.56
    """
    from scipy.optimize import brentq
    from scipy.special import erfc

    def slope(a: float) -> float:
        """Half of the derivative of clipping noise and rounding noise together."""
        tail = a * erfc(a / np.sqrt(2)) - np.sqrt(2 / np.pi) * np.exp(-(a**2) / 2)
        return float(tail + a / (3 * 4.0**bits))

    return float(brentq(slope, 1e-3, 40.0))
