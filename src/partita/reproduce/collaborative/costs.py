"""Tables 1 and 2: what dividing a layer costs, by the paper's formulas and as layouts have it.

Layers are without biases, which the tables leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from partita.cluster import Cluster
from partita.compile import account_layout, build_layout
from partita.graph import Graph
from partita.plan import Plan, Shard
from partita.regions import Region
from partita.reproduce.bench import Bench
from partita.reproduce.collaborative.setting import (
    ENDS,
    KINDS,
    OUTPUT,
    PAPER,
    Split,
    conv_graph,
    dense_graph,
    divide,
    even_spans,
    make_fleet,
    one_stage,
)
from partita.reproduce.figure import Claim, Drawn, Table, figure

_CONV_NOTES = (
    "prose and Table 2 disagree: copies of the input cost (N - 1) C_i H_i W_i, partial sums"
    " k (N - 1) H_i W_i, as the table has it",
    "equation 2 leaves out the length of the edges and the channels, and its first term is the"
    " whole input for every d: with p = floor(f/2) all nodes together read"
    " C_i (H_i + 2 p (d - 1)) (W_i + 2 p (d - 1))",
    "Table 2 multiplies the inputs of spatial splitting by H_i W_i a second time",
)


class Counted(NamedTuple):
    """What a layout does and moves, in elements.

    Attributes:
        macs: Multiplications of the busiest worker.
        weights: Of the worker that holds the most.
        sent: All that is sent for one request.
    """

    macs: int
    weights: int
    sent: int


def count(graph: Graph, workers: int, split: Split | None = None) -> Counted:
    """What dividing a layer costs, counted on its layout."""
    cluster = make_fleet(KINDS[0], workers)
    return _count(graph, cluster, divide(graph, cluster, split))


def count_tiles(graph: Graph, parts: int) -> Counted:
    """What dividing height and width in so many parts each costs, counted on its layout."""
    cluster = make_fleet(KINDS[0], parts**2)
    whole = Region.full(graph.tensors[OUTPUT].shape)
    rows, columns = (even_spans(whole.shape[axis], parts) for axis in (2, 3))
    workers = [name for name in cluster.names if name != ENDS]
    shards = [
        Shard(worker, {OUTPUT: whole.with_axis(2, row).with_axis(3, column)})
        for worker, (row, column) in zip(workers, product(rows, columns), strict=True)
    ]
    return _count(graph, cluster, one_stage(graph, cluster, "tiles", shards))


def _count(graph: Graph, cluster: Cluster, plan: Plan) -> Counted:
    layout = build_layout(graph, plan, cluster)
    account = account_layout(graph, layout)
    workers = [one for name, one in account.devices.items() if name != ENDS]
    return Counted(
        macs=round(max(one.macs for one in workers)),
        weights=max(one.weight_bytes for one in workers) // 4,
        sent=sum(stream.box.size for stream in layout.program.streams),
    )


@dataclass(frozen=True)
class Said:
    """A number by a formula of the paper.

    Attributes:
        what: It is said to be.
        formula: As printed.
        value: For the layer at hand.
        counted: What it is.
    """

    what: str
    formula: str
    value: int
    counted: int

    @property
    def claim(self) -> Claim:
        """The formula held against the layout."""
        return Claim(
            self.what,
            f"{self.formula} = {self.value:,}",
            f"{self.counted:,}",
            self.value == self.counted,
            "count",
        )


@figure(PAPER, 1, "Dense layers: what dividing them costs", kind="table")
def make_dense_costs(_: Bench) -> Drawn:
    """VGG-16's first dense layer on two workers."""
    return draw_dense_costs(25088, 4096, 2)


def draw_dense_costs(inputs: int, outputs: int, workers: int) -> Drawn:
    """Table 1 for one layer."""
    graph = dense_graph(inputs, outputs, bias=False)
    ways = {
        "no splitting": count(graph, 1),
        "output splitting": count(graph, workers, Split("output_channels", 1, outputs)),
        "input splitting": count(graph, workers, Split("input_channels", 1, inputs)),
    }
    none, by_output, by_input = ways.values()
    n, d_i, d_o = workers, inputs, outputs
    more = (by_output.sent - none.sent, by_input.sent - none.sent)
    said = (
        Said("multiplications, output splitting", "d_o/n d_i", d_o // n * d_i, by_output.macs),
        Said("multiplications, input splitting", "d_i/n d_o", d_i // n * d_o, by_input.macs),
        Said("weights per node, output splitting", "n d_i", n * d_i, by_output.weights),
        Said("weights per node, input splitting", "n d_o", n * d_o, by_input.weights),
        Said("communication, no splitting", "d_i + d_o", d_i + d_o, none.sent),
        Said("communication, output splitting", "n d_i + d_o", n * d_i + d_o, by_output.sent),
        Said("communication, input splitting", "d_i + n d_o", d_i + n * d_o, by_input.sent),
        Said("overhead of output splitting", "(n - 1) d_i", (n - 1) * d_i, more[0]),
        Said("overhead of input splitting", "(n - 1) d_o", (n - 1) * d_o, more[1]),
    )
    notes = (
        "weights per node are a slip of Table 1: each node holds d_i d_o / n of them either way",
        "Table 1's reductions are whole sums without and with output splitting, but additions with"
        " input splitting",
    )
    title = f"Table 1 for {inputs:,} inputs, {outputs:,} outputs, {workers} nodes"
    return _draw(title, ways, said, notes)


@figure(PAPER, 2, "Convolutions: what dividing them costs", kind="table")
def make_conv_costs(_: Bench) -> Drawn:
    """A 3x3 convolution of 128 x 128 maps from 64 to 128 channels; three workers, or 2 x 2."""
    return draw_conv_costs(128, 64, 128, 3)


def draw_conv_costs(size: int, depth: int, filters: int, kernel: int) -> Drawn:
    """Table 2 for one layer: three workers, or two parts of height and width each."""
    graph = conv_graph((size, size), depth, filters, kernel, bias=False)
    n, d, half = 3, 2, kernel // 2
    ways = {
        "baseline": count(graph, 1),
        "channel splitting": count(graph, n, Split("output_channels", 1, filters)),
        "spatial splitting": count_tiles(graph, d),
        "filter splitting": count(graph, n, Split("input_channels", 1, depth)),
    }
    none, channel, spatial, by_filter = ways.values()
    area = size**2
    part = area * depth + 4 * half * (d**2 - d)  # equation 2: its ceil(1 / d^2) is 1
    said = (
        Said("communication, baseline", "(C_i + k) H_i W_i", (depth + filters) * area, none.sent),
        Said(
            "communication, channel splitting", "(N C_i + k) H_i W_i",
            (n * depth + filters) * area, channel.sent,
        ),
        Said(
            "overhead of channel splitting (prose)", "(N C_i - 1) H_i W_i",
            (n * depth - 1) * area, channel.sent - none.sent,
        ),
        Said(
            "inputs of all nodes, spatial splitting",
            "d^2 (ceil(1/d^2) H_i W_i C_i + 4 floor(f/2) (d^2 - d))",
            d**2 * part, spatial.sent - filters * area,
        ),
        Said(
            "communication, spatial splitting", "(d^2 Eq.2 + k) H_i W_i",
            (d**2 * part + filters) * area, spatial.sent,
        ),
        Said(
            "overhead of spatial splitting (prose)", "4 d^2 floor(f/2) (d^2 - d)",
            4 * d**2 * half * (d**2 - d), spatial.sent - none.sent,
        ),
        Said(
            "communication, filter splitting", "(C_i + k N) H_i W_i",
            (depth + filters * n) * area, by_filter.sent,
        ),
        Said(
            "overhead of filter splitting (prose)", "(k N - 1) H_i W_i",
            (filters * n - 1) * area, by_filter.sent - none.sent,
        ),
    )  # fmt: skip
    title = f"Table 2 for {size} x {size} maps, {depth} to {filters} channels, {kernel}x{kernel}"
    return _draw(title, ways, said, _CONV_NOTES)


def _draw(
    title: str, ways: Mapping[str, Counted], said: tuple[Said, ...], notes: tuple[str, ...]
) -> Drawn:
    counted = Table(
        f"{title}: counted on the layout",
        ("way", "multiplications per node", "weights per node", "communication"),
        tuple((name, *one) for name, one in ways.items()),
        digits=12,
    )
    formulas = Table(
        f"{title}: by the paper's formulas",
        ("what", "formula", "by the formula", "counted"),
        tuple((one.what, one.formula, one.value, one.counted) for one in said),
        text_columns=2,
        digits=12,
    )
    return Drawn((counted, formulas), tuple(one.claim for one in said), (), notes)
