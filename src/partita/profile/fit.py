"""What a fragment costs beyond its layers, fitted to fragments timed from outside."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from partita.engine.timing import WireTimes
from partita.profile.data import RunCost, WireCost
from partita.profile.link import LinkCost, fit_link
from partita.profile.options import Alone, Border, MeasureState

#: Borders smaller than this say little about seconds per byte: what a conversion costs at all
#: weighs more. A round number, not tuned.
_MIN_BORDER_BYTES = 32_768
#: Least and most that whole fragments may take over the sum of their layers: what is beyond is
#: taken for a disturbed measurement. Not tuned.
_FACTORS = (0.9, 1.25)


def fit_runs(state: MeasureState, copy_s_per_byte: float) -> RunCost:
    """The cost of runs, from fragments that were timed from outside.

    Args:
        state: What was measured.
        copy_s_per_byte: Of memory that is read and written.
    """
    enter, leave = _rate(state.enter), _rate(state.leave)
    overhead_s, read, write = _fit_borders(state, enter, leave)
    loads = [(load.weight_bytes, load.seconds) for load in state.loads]
    load = fit_link(loads) if len(dict(loads)) > 1 else LinkCost(0.0, float("inf"))
    return RunCost(
        overhead_s=overhead_s,
        enter_s_per_byte=enter,
        leave_s_per_byte=leave,
        read_s_per_byte=read,
        write_s_per_byte=write,
        factor=_fit_factor(state, overhead_s),
        copy_s_per_byte=copy_s_per_byte,
        load_s=load.per_message_s,
        load_s_per_byte=1 / load.bytes_per_s,
    )


def _rate(borders: Sequence[Border]) -> float:
    """Seconds per byte of conversions; the median, large ones preferred."""
    large = [border for border in borders if border.size_bytes >= _MIN_BORDER_BYTES]
    rates = [border.seconds / border.size_bytes for border in large or borders]
    return statistics.median(rates) if rates else 0.0


def _fit_borders(state: MeasureState, enter: float, leave: float) -> tuple[float, float, float]:
    """Seconds per run, per byte read and per byte written, beyond layers and conversions.

    Relative errors count, so that short fragments say what a run costs and long ones what bytes do.
    Where no layer could be run alone, fragments of several say what a run costs.
    """
    alone: list[Alone] = state.alone
    if not alone:
        beyond_s = [max(0.0, wall.seconds - wall.nodes_s) for wall in state.walls]
        return statistics.median(beyond_s or [0.0]), 0.0, 0.0
    matrix = np.array([[1.0, part.read_bytes, part.write_bytes] for part in alone])
    converted = matrix[:, 1:] @ [enter, leave] * [part.blocked for part in alone]
    layers_s = np.array([part.layer_s for part in alone])
    seconds = np.array([part.seconds for part in alone])
    beyond = np.maximum(0.0, seconds - layers_s - converted)
    rates, _ = nnls(matrix / seconds[:, None], beyond / seconds)
    return float(rates[0]), float(rates[1]), float(rates[2])


def _fit_factor(state: MeasureState, overhead_s: float) -> float:
    """Measured over predicted, as the median over fragments weighed by their length."""
    ratios = sorted(
        (wall.seconds / (wall.nodes_s + overhead_s), wall.seconds)
        for wall in state.walls
        if wall.nodes_s > 0
    )
    half = sum(seconds for _, seconds in ratios) / 2
    for ratio, seconds in ratios:
        half -= seconds
        if half <= 0:
            return float(np.clip(ratio, *_FACTORS))
    return 1.0


def fit_wire(times: WireTimes) -> WireCost:
    """The cost of encoding and decoding, from two sizes."""
    out, back = fit_link(times.encode), fit_link(times.decode)
    return WireCost(
        out.per_message_s, 1 / out.bytes_per_s, back.per_message_s, 1 / back.bytes_per_s
    )
