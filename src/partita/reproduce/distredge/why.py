"""Figures 13 and 14 of DistrEdge: why it wins, after the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.cost import CostModel
from partita.regions import Region
from partita.reproduce.bench import Bench
from partita.reproduce.distredge.methods import DISTREDGE, METHODS
from partita.reproduce.distredge.setting import MAIN_MODEL, PAPER
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure
from partita.reproduce.study import Series

#: Clusters that have a device of each kind, and those kinds' devices.
_CLUSTER = "DC-50"
_WHERE = "DB-50"
#: A straight line that is further off than this share, at its worst, is no model of a layer: our
#: reading, not tuned.
_NONLINEAR = 0.05
_LAYERED = ("coedge", "modnn", "mednn")
_EQUAL = ("deepthings", "deeperthings")


@dataclass(frozen=True)
class Stairs:
    """The seconds of one layer on one device, by the rows that it makes.

    Attributes:
        seconds: For one row, two, and so on to all.
        steps: Numbers of rows at which the time rises.
        off: Largest distance from the best straight line, as a share of the whole layer's time.
    """

    seconds: tuple[float, ...]
    steps: int
    off: float


def measure_stairs(cost: CostModel, device: str, layer: str) -> Stairs:
    """A layer's seconds for each number of output rows, as the methods are judged by."""
    seconds = [cost.layer_s(device, layer, boxes) for boxes in _boxes(cost, layer)]
    rows = np.arange(1, len(seconds) + 1)
    slope, fixed = np.polyfit(rows, seconds, 1)
    off = float(np.abs(np.asarray(seconds) - (fixed + slope * rows)).max())
    steps = sum(b > a * (1 + 1e-9) for a, b in zip([0.0, *seconds], seconds, strict=False))
    return Stairs(tuple(seconds), int(steps), off / seconds[-1])


def _boxes(cost: CostModel, layer: str) -> list[dict[str, Region]]:
    output = cost.graph.layer(layer).outputs[0]
    place = cost.amounts.axes.axis(output) or 0
    whole = Region.full(cost.graph.tensors[output].shape)
    boxes = []
    for stop in range(1, whole.bounds[place][1] + 1):
        bounds = (*whole.bounds[:place], (0, stop), *whole.bounds[place + 1 :])
        boxes.append({output: Region(bounds)})
    return boxes


@figure(PAPER, 13, "Computing latency against output size")
def make_stairs(bench: Bench) -> Drawn:
    """One convolution on each kind of device, row by row."""
    cost = bench.cost(_CLUSTER, MAIN_MODEL)
    layer = _pick_layer(cost)
    stairs = {name: measure_stairs(cost, name, layer) for name in cost.cluster.providers}
    rows: list[tuple[Cell, ...]] = [
        (cost.cluster.device(name).kind, len(s.seconds), s.steps, 1e3 * s.seconds[-1], 100 * s.off)
        for name, s in stairs.items()
    ]
    columns = ("device", "rows", "steps", "all rows, ms", "off the best line, %")
    table = Table(f"Figure 13: latency of layer {layer} by its output rows", columns, tuple(rows))
    bent = [name for name, s in stairs.items() if s.off > _NONLINEAR]
    ours = f"{len(bent)} of {len(stairs)} devices more than {_NONLINEAR:.0%} off the best line"
    holds = len(bent) == len(stairs)
    claim = Claim("Profile", "latency is not linear in the layer's size", ours, holds)
    chart = Chart(
        f"Figure 13: layer {layer}, latency over that of all rows",
        "lines",
        tuple(float(row) for row in range(1, len(next(iter(stairs.values())).seconds) + 1)),
        {
            cost.cluster.device(name).kind: tuple(v / s.seconds[-1] for v in s.seconds)
            for name, s in stairs.items()
        },
        "output rows",
        "share of the whole layer",
    )
    note = (
        "The stairs are the catalogue's: rows that a device computes together are its estimate, not"
        " a measurement; the paper's are measured with TensorRT, over the output's width."
    )
    return Drawn((table,), (claim,), (chart,), (note,))


def _pick_layer(cost: CostModel) -> str:
    """The layer with the fewest rows among those with the most operations."""
    most = max(layer.macs for layer in cost.graph.layers)
    amounts = cost.amounts.layers
    heavy = [layer.name for layer in cost.graph.layers if layer.macs >= most]
    return min(heavy, key=lambda name: (amounts[name].rows, name))


@figure(PAPER, 14, "Transmission and computing on DB at 50 Mbit/s")
def make_maxima(bench: Bench) -> Drawn:
    """The longest transmission and the longest computing among the four providers."""
    series_by = {method: bench.run(_WHERE, MAIN_MODEL, method) for method in METHODS}
    planned = {method: series for method, series in series_by.items() if not series.fault}
    rows: list[tuple[Cell, ...]] = [
        (METHODS[m], 1e3 * _sent(s), 1e3 * _computed(s), 1e3 * s.latency_s)
        for m, s in planned.items()
    ]
    columns = ("method", "max. transmission, ms", "max. computing, ms", "latency, ms")
    table = Table("Figure 14: DB at 50 Mbit/s, largest among the providers", columns, tuple(rows))
    names = tuple(METHODS[method] for method in planned)
    series = {
        "transmission": tuple(1e3 * _sent(s) for s in planned.values()),
        "computing": tuple(1e3 * _computed(s) for s in planned.values()),
    }
    title = "Figure 14: largest transmission and computing latency, DB at 50 Mbit/s"
    chart = Chart(title, "bars", names, series, "method", "ms")
    notes = tuple(f"{METHODS[m]} has no plan: {s.fault}" for m, s in series_by.items() if s.fault)
    return Drawn((table,), tuple(_claims(planned)), (chart,), notes)


def _sent(series: Series) -> float:
    return sum(outcome.max_transmission_s for outcome in series.outcomes) / len(series.outcomes)


def _computed(series: Series) -> float:
    return sum(outcome.max_compute_s for outcome in series.outcomes) / len(series.outcomes)


def _claims(planned: dict[str, Series]) -> list[Claim]:
    """The three things that the paper reads off the figure."""
    sent = {method: 1e3 * _sent(series) for method, series in planned.items()}
    computed = {method: 1e3 * _computed(series) for method, series in planned.items()}
    claims = []
    for method, name in DISTREDGE.items():
        if method not in planned:
            continue
        for words, group, values in (
            ("layer-by-layer methods transmit longest", _LAYERED, sent),
            ("methods with equal shares compute longer", _EQUAL, computed),
            ("AOFL computes longer", ("aofl",), computed),
        ):
            others = [values[each] for each in group if each in values]
            if others:
                ours = (
                    f"{min(others):.1f} to {max(others):.1f} ms against"
                    f" {values[method]:.1f} ms of DistrEdge"
                )
                claims.append(Claim(name, words, ours, min(others) > values[method]))
    return claims
