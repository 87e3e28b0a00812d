"""Figures 11 and 14: single layers divided over two and three workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from partita.cluster import Cluster
from partita.graph import Graph
from partita.reproduce.bench import Bench
from partita.reproduce.collaborative.setting import (
    KINDS,
    PAPER,
    Split,
    conv_graph,
    dense_graph,
    make_fleet,
    request_s,
)
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure

#: Inputs of dense layers; the framework of the paper reads those of the second by tiles.
SWAPPED, TILED = 7680, 8192
OUTPUTS = (512, 1024, 2048, 4096, 8192, 16384)
DENSE_WORKERS = 2
KERNELS = (3, 5, 9)
FILTERS = (128, 512)
#: The paper says "various input depths": these are ours.
DEPTHS = (16, 64, 128, 256, 512)
SIZE = 128
CONV_WORKERS = 3
#: A speedup below this counts as none. Not tuned.
_NONE = 1.1
#: Bars end here; the tables have all numbers.
_HIGHEST_BAR = 6.0
_SWAP_NOTE = (
    "what a device cannot hold is brought in for each request, at the catalogue's swap rate; inputs"
    f" of {TILED} never pay, as the paper says that its framework reads them by tiles: what makes"
    f" them unlike {SWAPPED} is not explained, and is not simulated"
)
_NO_SWAP_NOTE = (
    "nothing swaps: the paper speaks of that at dense layers, and of depths that it does not name"
)
SPEED_NOTE = (
    "speedups are of one request from sender to receiver, against the same on one worker; the"
    " paper's bars are not in its text, so its sentences are compared"
)


@dataclass(frozen=True)
class Sped:
    """One layer on one worker, and divided.

    Attributes:
        alone_s: On one worker.
        speedups: By way of dividing, as the table names it.
    """

    alone_s: float
    speedups: Mapping[str, float]

    @property
    def best(self) -> float:
        """The largest speedup."""
        return max(self.speedups.values())


def speed_up(graph: Graph, fleet: Cluster, splits: Mapping[str, Split]) -> Sped:
    """One layer on one worker against all of a fleet's, by each way of dividing it."""
    alone_s = request_s(graph, fleet, None)
    return Sped(
        alone_s, {name: alone_s / request_s(graph, fleet, one) for name, one in splits.items()}
    )


#: By kind of device, inputs, outputs.
Dense = Mapping[tuple[str, int, int], Sped]


@figure(PAPER, 11, "Dense layers on two workers")
def make_dense(bench: Bench) -> Drawn:
    """Output and input splitting by the number of outputs."""
    return draw_dense(measure_dense(OUTPUTS, bench.advance))


def measure_dense(outputs: Sequence[int], advance: Callable[[str], None]) -> Dense:
    """Speedups of dense layers with so many outputs."""
    found = {}
    for count in (SWAPPED, TILED):
        for wide in outputs:
            advance(f"{count} x {wide}")
            graph = dense_graph(count, wide)
            splits = {
                "output": Split("output_channels", 1, wide),
                "input": Split("input_channels", 1, count),
            }
            for kind in KINDS:
                fleet = make_fleet(kind, DENSE_WORKERS, swaps=count != TILED)
                found[kind, count, wide] = speed_up(graph, fleet, splits)
    return found


def draw_dense(found: Dense) -> Drawn:
    """Tables, claims and a chart per kind of device."""
    rows = tuple(
        (kind, inputs, wide, sped.alone_s, sped.speedups["output"], sped.speedups["input"])
        for (kind, inputs, wide), sped in sorted(found.items())
    )
    columns = ("device", "inputs", "outputs", "one worker, s", "output split", "input split")
    table = Table("Figure 11: speedup on two workers", columns, rows)
    outputs = sorted({wide for _, _, wide in found})
    charts = [
        Chart(
            f"Figure 11, {kind}: speedup, bars end at {_HIGHEST_BAR:g}",
            "bars",
            tuple(str(wide) for wide in outputs),
            {
                f"{way} split, {inputs} inputs": tuple(
                    min(found[kind, inputs, wide].speedups[way], _HIGHEST_BAR) for wide in outputs
                )
                for inputs in (SWAPPED, TILED)
                for way in ("output", "input")
            },
            "outputs",
            "speedup",
        )
        for kind in KINDS
    ]
    claims = [claim for kind in KINDS for claim in _dense_claims(kind, found)]
    return Drawn((table,), tuple(claims), tuple(charts), (_SWAP_NOTE, SPEED_NOTE))


def _dense_claims(kind: str, found: Dense) -> list[Claim]:
    swapped = {
        wide: one for (k, inputs, wide), one in found.items() if (k, inputs) == (kind, SWAPPED)
    }
    tiled = {wide: one for (k, inputs, wide), one in found.items() if (k, inputs) == (kind, TILED)}
    over = [wide for wide, one in swapped.items() if one.best > DENSE_WORKERS]
    largest = max(one.best for one in swapped.values())
    ours = f"up to {largest:.3g}x; above 2x with {', '.join(map(str, over)) or 'no'} outputs"
    both = (*swapped.values(), *tiled.values())
    slower = [one.speedups["input"] < one.speedups["output"] for one in both]
    return [
        Claim(
            kind,
            f"for the input size of {SWAPPED} and large output sizes, super-linear speedups",
            ours,
            bool(over) and max(swapped) in over and min(swapped) not in over,
        ),
        Claim(
            kind,
            f"for input size of {TILED} no swap, speedups below the ideal value of two",
            f"at most {max(one.best for one in tiled.values()):.2f}x",
            max(one.best for one in tiled.values()) < DENSE_WORKERS,
        ),
        Claim(
            kind,
            "input splitting has mostly lower performance than output splitting",
            f"lower in {sum(slower)} of {len(slower)} layers",
            sum(slower) > len(slower) / 2,
        ),
    ]


#: By kind of device, kernel, filters, depth.
Conv = Mapping[tuple[str, int, int, int], Sped]


@figure(PAPER, 14, "Convolutions on three workers")
def make_conv(bench: Bench) -> Drawn:
    """Channel, spatial and filter splitting by kernel, filters and depth of the input."""
    return draw_conv(measure_conv(SIZE, DEPTHS, bench.advance))


def measure_conv(size: int, depths: Sequence[int], advance: Callable[[str], None]) -> Conv:
    """Speedups of convolutions of maps of that size."""
    found = {}
    for kernel in KERNELS:
        for filters in FILTERS:
            for depth in depths:
                advance(f"{kernel} x {kernel}, {depth} to {filters}")
                graph = conv_graph((size, size), depth, filters, kernel)
                splits = {
                    "channel": Split("output_channels", 1, filters),
                    "spatial": Split("rows", 2, size),
                    "filter": Split("input_channels", 1, depth),
                }
                for kind in KINDS:
                    fleet = make_fleet(kind, CONV_WORKERS, swaps=False)
                    found[kind, kernel, filters, depth] = speed_up(graph, fleet, splits)
    return found


def draw_conv(found: Conv) -> Drawn:
    """One table, claims, and a chart per kind of device."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (kind, f"{kernel}x{kernel}", filters, depth, sped.alone_s, *sped.speedups.values())
        for (kind, kernel, filters, depth), sped in found.items()
    )
    ways = ("channel", "spatial", "filter")
    columns = ("device", "kernel", "filters", "depth", "one worker, s", *ways)
    table = Table("Figure 14: speedup on three workers", columns, rows, text_columns=2)
    cases = [key for key in found if key[0] == KINDS[0]]
    charts = [
        Chart(
            f"Figure 14, {kind}",
            "bars",
            tuple(f"{kernel}\n{filters}\n{depth}" for _, kernel, filters, depth in cases),
            {way: tuple(found[kind, *case[1:]].speedups[way] for case in cases) for way in ways},
            "kernel, filters, depth of the input",
            "speedup",
        )
        for kind in KINDS
    ]
    claims = [claim for kind in KINDS for claim in _conv_claims(kind, found)]
    return Drawn((table,), tuple(claims), tuple(charts), (_NO_SWAP_NOTE, SPEED_NOTE))


def _conv_claims(kind: str, found: Conv) -> list[Claim]:
    ours = {key[1:]: sped for key, sped in found.items() if key[0] == kind}
    depths = sorted({depth for _, _, depth in ours})
    small = {depth: ours[3, 128, depth].best for depth in depths}
    first = [sped.speedups["spatial"] == sped.best for sped in ours.values()]
    ahead = {
        kernel: mean(
            sped.speedups["spatial"] / max(sped.speedups["channel"], sped.speedups["filter"])
            for (each, *_), sped in ours.items()
            if each == kernel
        )
        for kernel in KERNELS
    }
    return [
        Claim(
            kind,
            "kernel 3x3, 128 filters: smaller input depths have no speedup, larger have",
            ", ".join(f"{small[depth]:.2f}x with {depth}" for depth in depths),
            small[depths[0]] < _NONE < small[depths[-1]],
        ),
        Claim(
            kind,
            "in most cases, spatial splitting performs better",
            f"best in {sum(first)} of {len(first)} layers",
            sum(first) > len(first) / 2,
        ),
        Claim(
            kind,
            "for larger 9x9 kernels the advantage of spatial splitting is less noticeable",
            "over the better of the others on average "
            + ", ".join(f"{ahead[kernel]:.2f}x with {kernel}x{kernel}" for kernel in KERNELS),
            ahead[KERNELS[-1]] < ahead[KERNELS[0]],
        ),
    ]
