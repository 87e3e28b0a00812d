"""What a fragment costs beyond its layers, fitted to fragments timed from outside."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from partita.engine.timing import WireTimes
from partita.profile.borders import PASSES, UNCROSSED, CrossedBytes
from partita.profile.data import RunCost, Sample, WireCost
from partita.profile.link import LinkCost, fit_link
from partita.profile.options import Alone, Border, MeasureState

#: Borders smaller than this say little about seconds per byte: what a conversion costs at all
#: weighs more. A round number, not tuned.
_MIN_BORDER_BYTES = 32_768
#: Least and most that whole fragments may take over the sum of their layers: what is beyond is
#: taken for a disturbed measurement. DenseNet-121 takes 0.85 of the sum, a separable network 0.8.
_FACTORS = (0.7, 1.25)
#: The same on integer kernels: groups of layers turn floats into codes at their ends, which counts
#: as their layers' time, and the whole network does not. MobileNet-v2 takes 0.68 of the sum.
_INTEGER_FACTORS = (0.5, 1.25)
#: Rounds of fitting the factor of layers and what comes beyond them, each from the other; the
#: second changes the third digit. Not tuned.
_ROUNDS = 3
#: Most that the rates are lifted for the sum's sake. Not tuned.
_MOST_LIFT = 1.5


class FittedRuns(NamedTuple):
    """What fragments cost beyond what their layers take when run again and again.

    Attributes:
        runs: Beyond the layers.
        weight_s_per_byte: Of a layer's weights, which in a request come from farther away.
    """

    runs: RunCost
    weight_s_per_byte: float


def fit_runs(
    state: MeasureState,
    copy_s_per_byte: float,
    weight_bytes: int = 0,
    crossed: CrossedBytes = UNCROSSED,
    *,
    integer: bool = False,
) -> FittedRuns:
    """The cost of runs, from fragments that were timed from outside.

    Args:
        state: What was measured.
        copy_s_per_byte: Of memory that is read and written.
        weight_bytes: Of all layers whose weights come from farther away in a request.
        crossed: In the whole network.
        integer: Whether layers ran on integer kernels.
    """
    enter, leave = _rate(state.enter), _rate(state.leave)
    beyond = _Beyond(0.0, 0.0, 0.0, 0.0)
    limits = _INTEGER_FACTORS if integer else _FACTORS
    converted_s = enter * crossed.enter + leave * crossed.leave
    passes_s = PASSES * copy_s_per_byte * crossed.passes
    for _ in range(_ROUNDS):
        more_s = beyond.run_s + beyond.weight * weight_bytes + converted_s
        factor = float(np.clip(_find_factor(state, beyond.run_s, more_s, passes_s), *limits))
        beyond = _fit_beyond(state, enter, leave, factor)
    loads = [(load.weight_bytes, load.seconds) for load in state.loads]
    load = fit_link(loads) if len(dict(loads)) > 1 else LinkCost(0.0, float("inf"))
    runs = RunCost(
        overhead_s=beyond.run_s,
        enter_s_per_byte=enter,
        leave_s_per_byte=leave,
        read_s_per_byte=beyond.read,
        write_s_per_byte=beyond.write,
        factor=factor,
        copy_s_per_byte=copy_s_per_byte,
        load_s=load.per_message_s,
        load_s_per_byte=1 / load.bytes_per_s,
    )
    return FittedRuns(runs, beyond.weight)


def _rate(borders: Sequence[Border]) -> float:
    """Seconds per byte of conversions; the median, large ones preferred."""
    large = [border for border in borders if border.size_bytes >= _MIN_BORDER_BYTES]
    rates = [border.seconds / border.size_bytes for border in large or borders]
    return statistics.median(rates) if rates else 0.0


class _Beyond(NamedTuple):
    """Seconds per run, per byte read, written, and of weights, beyond layers and conversions."""

    run_s: float
    read: float
    write: float
    weight: float


def _fit_beyond(state: MeasureState, enter: float, leave: float, factor: float) -> _Beyond:
    """The costs that the layers run alone and in turn show.

    Where no layer could be run alone, fragments of several say what a run costs.
    """
    alone: list[Alone] = state.alone
    if not alone:
        beyond_s = [max(0.0, wall.seconds - wall.nodes_s) for wall in state.walls]
        return _Beyond(statistics.median(beyond_s or [0.0]), 0.0, 0.0, 0.0)
    matrix = np.array([[1.0, p.read_bytes, p.write_bytes, p.weight_bytes] for p in alone])
    converted = matrix[:, 1:3] @ [enter, leave] * [part.blocked for part in alone]
    layers_s = np.array([part.layer_s for part in alone])
    seconds = np.array([part.seconds for part in alone])
    beyond = seconds - factor * layers_s - converted
    # Relative errors alone would fit the short fragments and leave the sum of all too small, and
    # absolute ones the long, of which the layers are most: the weights of counts are between.
    scale = 1 / np.sqrt(seconds)
    rates, _ = nnls(matrix * scale[:, None], beyond * scale)
    # What a plan takes is a sum over its fragments: that shall be right.
    fitted_s = float((matrix @ rates).sum())
    if fitted_s > 0:
        rates *= np.clip(float(beyond.sum()) / fitted_s, 1 / _MOST_LIFT, _MOST_LIFT)
    return _Beyond(*map(float, rates))


def _find_factor(state: MeasureState, overhead_s: float, more_s: float, passes_s: float) -> float:
    """What layers take in a request over what they took in their groups.

    The whole network says so; where it was not run, the groups timed from outside do, as the median
    weighed by their length.

    Args:
        overhead_s: Of a run.
        more_s: What the whole network takes beyond its layers, that among it.
        passes_s: What passes in it take, which counts as layers do.
    """
    layers_s = sum(max(layer.samples, key=_rows).seconds for layer in state.layers.values())
    if state.whole_s and layers_s:
        return (state.whole_s - more_s) / (layers_s + passes_s)
    ratios = sorted(
        (wall.seconds / (wall.nodes_s + overhead_s), wall.seconds)
        for wall in state.walls
        if wall.nodes_s > 0
    )
    half = sum(seconds for _, seconds in ratios) / 2
    for ratio, seconds in ratios:
        half -= seconds
        if half <= 0:
            return ratio
    return 1.0


def _rows(sample: Sample) -> int:
    return sample.rows


def fit_wire(times: WireTimes) -> WireCost:
    """The cost of encoding and decoding, from two sizes."""
    out, back = fit_link(times.encode), fit_link(times.decode)
    return WireCost(
        out.per_message_s, 1 / out.bytes_per_s, back.per_message_s, 1 / back.bytes_per_s
    )
