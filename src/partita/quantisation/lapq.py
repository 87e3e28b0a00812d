"""LAPQ: ranges by what the network's outputs lose, not each tensor (Nahshan et al. 2019).

First all ranges come from one exponent of the error, the best by a parabola through the losses of
several; then Powell's method stretches all of them together. Labels are not asked for: the loss is
how far outputs are from the float network's. Minutes to hours, where ``mse`` takes seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from partita.quantisation.choose import USUAL, CodeOptions, Widths, choose_bits
from partita.quantisation.outputs import OutputMeasure, Reference
from partita.quantisation.ranges import Advance, Ranges
from partita.regions import LayerBits

#: Exponents that are tried: those of the paper's figure 6.
_NORMS = (2.0, 2.5, 3.0, 3.5, 4.0)
#: How far ranges may be stretched or shrunk. Not tuned.
_STRETCH = (0.5, 1.5)
Bits = dict[str, LayerBits]


def search_lapq(
    reference: Reference,
    ranges: Ranges,
    weights: Widths,
    activations: Widths,
    options: CodeOptions = USUAL,
    *,
    measure: OutputMeasure = "output-mse",
    evaluations: int = 200,
    advance: Advance | None = None,
) -> Bits:
    """The table of bits with the smallest loss that was found; never worse than ``mse``.

    Args:
        reference: The float network, with the samples that outputs are compared for.
        evaluations: How many tables Powell's method may try.
    """
    loss = _Loss(reference, measure, len(_NORMS) + 1 + evaluations, advance)

    def table(norm: float) -> Bits:
        asked = replace(options, clipping="mse", norm=norm)
        return choose_bits(reference.graph, ranges, weights, activations, asked)

    losses = [loss.of(table(norm)) for norm in _NORMS]
    best = _lowest(_NORMS, losses)
    loss.of(table(best))
    start = loss.best
    names = list(start)
    if names and evaluations:
        minimize(
            lambda factors: loss.of(_stretch(start, names, factors)),
            np.ones(2 * len(names)),
            method="Powell",
            bounds=[_STRETCH] * (2 * len(names)),
            options={"maxfev": evaluations},
        )
    return loss.best


class _Loss:
    """Measures tables, and keeps the best."""

    def __init__(
        self, reference: Reference, measure: OutputMeasure, total: int, advance: Advance | None
    ) -> None:
        self._reference = reference
        self._measure = measure
        self._total = total
        self._advance = advance
        self._done = 0
        self._least = np.inf
        self.best: Bits = {}

    def of(self, bits: Bits) -> float:
        """A table's loss."""
        if self._advance is not None:
            self._advance(min(self._done, self._total), self._total, "LAPQ")
        self._done += 1
        loss = self._reference.measure(bits, self._measure)
        if loss < self._least or not self.best:
            self._least, self.best = loss, bits
        return loss


def _lowest(norms: Sequence[float], losses: Sequence[float]) -> float:
    """Where the parabola through the losses is lowest; the best norm where it has no such place."""
    bend, slope, _ = np.polyfit(norms, losses, 2)
    if bend <= 0:
        return float(norms[int(np.argmin(losses))])
    return float(np.clip(-slope / (2 * bend), norms[0], norms[-1]))


def _stretch(bits: Bits, names: Sequence[str], factors: npt.NDArray[np.float64]) -> Bits:
    """Ranges of weights times the first half of the factors, of activations times the second."""
    pairs = zip(names, factors[: len(names)], factors[len(names) :], strict=True)
    return {
        name: msgspec.structs.replace(
            bits[name],
            stretch=float(weight),
            low=bits[name].low * float(activation),
            high=bits[name].high * float(activation),
        )
        for name, weight, activation in pairs
    }
