"""What a fragment costs beyond its layers, fitted to fragments timed from outside."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from partita.engine import OrtEngine, Reference, make_inputs
from partita.engine.base import CPU
from partita.engine.reference import reference_model
from partita.profile.data import RunCost, WireCost
from partita.profile.link import LinkCost, fit_link
from partita.profile.options import Border, State
from partita.regions import WIRE_FORMATS, decode_array, encode_array

#: Borders smaller than this say little about seconds per byte.
_MIN_BORDER_BYTES = 32_768
#: Fragments longer than this say little about the fixed cost of a run.
_SHORT_S = 0.01
_FACTORS = (0.9, 1.25)
_WIRE_SIDES = (64, 256)
#: More than the caches hold: what is added came from elsewhere.
_COPY_ITEMS = 2**23
_REPEATS = 3
_EMPTY_RUNS = 20


def fit_runs(state: State, reference: Reference) -> RunCost:
    """Return the cost of runs from what was measured, and of runs of next to nothing."""
    overhead_s, layer_s = _fit_overhead(state)
    overhead_s = max(overhead_s, _measure_run(reference) * state.reference_s / reference.time_s())
    loads = [(load.weight_bytes, load.seconds) for load in state.loads]
    load = fit_link(loads) if len(dict(loads)) > 1 else LinkCost(0.0, float("inf"))
    return RunCost(
        overhead_s=overhead_s,
        layer_s=layer_s,
        enter_s_per_byte=_rate(state.enter),
        leave_s_per_byte=_rate(state.leave),
        factor=_fit_factor(state, overhead_s, layer_s),
        copy_s_per_byte=_measure_copy(),
        load_s=load.per_message_s,
        load_s_per_byte=1 / load.bytes_per_s,
    )


def _rate(borders: Sequence[Border]) -> float:
    """Return seconds per byte of conversions; the median, large ones preferred."""
    large = [border for border in borders if border.size_bytes >= _MIN_BORDER_BYTES]
    rates = [border.seconds / border.size_bytes for border in large or borders]
    return statistics.median(rates) if rates else 0.0


def _fit_overhead(state: State) -> tuple[float, float]:
    """Return seconds per run and per layer, from short fragments."""
    walls = [wall for wall in state.walls if wall.seconds < _SHORT_S]
    if not walls:
        return 0.0, 0.0
    weights = np.array([1 / wall.seconds for wall in walls])
    matrix = np.array([[1.0, wall.layers] for wall in walls]) * weights[:, None]
    beyond = np.array([max(0.0, wall.seconds - wall.nodes_s) for wall in walls]) * weights
    found, _ = nnls(matrix, beyond)
    return float(found[0]), float(found[1])


def _measure_run(reference: Reference) -> float:
    """Return the seconds of a run that computes nothing, after one that filled the caches."""
    runner = OrtEngine(1, (CPU,)).load(reference_model(1, 1), {})
    arrays = make_inputs(runner.inputs)
    times = []
    for _ in range(_EMPTY_RUNS):
        reference.run()
        start_s = time.perf_counter()
        runner.run(arrays)
        times.append(time.perf_counter() - start_s)
    return min(times)


def _fit_factor(state: State, overhead_s: float, layer_s: float) -> float:
    """Return measured over predicted, as the median over fragments weighed by their length."""
    ratios = sorted(
        (wall.seconds / (wall.nodes_s + overhead_s + layer_s * wall.layers), wall.seconds)
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
    """Return what encoding and decoding costs here, per wire format."""
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
    """Return seconds per byte read or written by an addition of two arrays."""
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
