"""What a fragment costs beyond its layers, fitted to fragments timed from outside."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from partita.profile.data import RunCost, WireCost
from partita.profile.link import LinkCost, fit_link
from partita.profile.options import Alone, Border, MeasureState
from partita.regions import WIRE_FORMATS, decode_array, encode_array

#: Borders smaller than this say little about seconds per byte: what a conversion costs at all
#: weighs more. A round number, not tuned.
_MIN_BORDER_BYTES = 32_768
#: Least and most that whole fragments may take over the sum of their layers: what is beyond is
#: taken for a disturbed measurement. Not tuned.
_FACTORS = (0.9, 1.25)
#: Two square tensors of 16 and 256 KiB: a line through them has a fixed part and one per byte.
#: Sizes not tuned.
_WIRE_SIDES = (64, 256)
#: More than most caches hold (32 MiB each): what is added came from elsewhere. Not tuned.
_COPY_ITEMS = 2**23
#: The least of so many runs is taken. Not tuned: more are less disturbed and take longer.
_REPEATS = 3


def fit_runs(state: MeasureState) -> RunCost:
    """The cost of runs, from fragments that were timed from outside."""
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
        copy_s_per_byte=_measure_copy(),
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


def measure_wires() -> dict[str, WireCost]:
    """The cost of encoding and decoding on this machine, per wire format."""
    return {wire: _measure_wire(wire) for wire in WIRE_FORMATS}


def _measure_wire(wire: str) -> WireCost:
    encode, decode = [], []
    for side in _WIRE_SIDES:
        whole = np.random.default_rng(side).random((side + 2, side), np.float32)
        array = whole[1:-1]
        payload = bytes(encode_array(array, wire))
        encode.append((array.nbytes, _time(partial(_encode, array, wire))))
        decode.append((array.nbytes, _time(partial(_decode, payload, array.shape, wire))))
    out, back = fit_link(encode), fit_link(decode)
    return WireCost(
        out.per_message_s, 1 / out.bytes_per_s, back.per_message_s, 1 / back.bytes_per_s
    )


def _encode(array: npt.NDArray[np.float32], wire: str) -> bytes:
    return bytes(encode_array(array, wire))


def _decode(payload: bytes, shape: tuple[int, ...], wire: str) -> npt.NDArray[np.generic]:
    return decode_array(payload, shape, "float32", wire).copy()


def _measure_copy() -> float:
    """Seconds per byte read or written by an addition of two arrays."""
    a = np.ones(_COPY_ITEMS, np.float32)
    b = a.copy()
    return _time(lambda: np.add(a, b, out=b)) / (3 * a.nbytes)


def _time(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(_REPEATS):
        start_s = time.perf_counter()
        work()
        times.append(time.perf_counter() - start_s)
    return min(times)
