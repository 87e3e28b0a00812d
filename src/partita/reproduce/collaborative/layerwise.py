"""Figures 15, 16, 18 and 19: the layers of models on one small device, and the heaviest divided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from partita.cluster import Cluster
from partita.compile import work_builder
from partita.cost import CostModel
from partita.graph import Graph, Layer
from partita.regions import Region
from partita.reproduce.bench import Bench
from partita.reproduce.collaborative.layers import SPEED_NOTE, Sped, speed_up
from partita.reproduce.collaborative.replicas import (
    REPLICA_NOTE,
    claim_linear,
    replica_chart,
    replica_table,
    scale_all,
)
from partita.reproduce.collaborative.setting import (
    KINDS,
    PAPER,
    PORT_BYTES_PER_S,
    Split,
    conv_graph,
    make_fleet,
)
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure

#: "In order of minutes".
_MINUTES_S = 60.0
_LOW_S = 0.2
#: The second convolution of C3D: frames, height and width; channels in and out; kernel.
C3D_SECOND = ((16, 56, 56), 64, 128, 3)
_WORKERS = 3
_C3D_GAIN = 2.6
#: At least so much of what the paper says bears it out. Not tuned.
_ABOUT = 0.95
_NOTE = (
    "pools and other light layers belong to none of these; a layer is held by a device of its own,"
    " and what does not fit its memory is brought in at the catalogue's swap rate"
)


@dataclass(frozen=True)
class LayerCost:
    """One layer on one device.

    Attributes:
        memory_bytes: Weights, the engine's copies, and what it reads and makes.
        seconds: Of one request, with what is brought in.
        fits: Whether nothing is.
    """

    memory_bytes: int
    seconds: float
    fits: bool


#: By kind of device and layer.
Costs = Mapping[tuple[str, str], LayerCost]


def price_layers(graph: Graph) -> Costs:
    """Every layer that multiplies, alone on a device of each kind.

    The two steps of a separable convolution count as one layer, as in the paper.
    """
    found: dict[tuple[str, str], LayerCost] = {}
    for kind in KINDS:
        cluster = make_fleet(kind, 1)
        cost = CostModel(graph, cluster)
        for layer in graph.layers:
            if layer.macs:
                name = layer.name.removesuffix(".depthwise").removesuffix(".pointwise")
                one = _price(cost, cluster, layer)
                before = found.get((kind, name), LayerCost(0, 0.0, True))
                found[kind, name] = LayerCost(
                    before.memory_bytes + one.memory_bytes,
                    before.seconds + one.seconds,
                    before.fits and one.fits,
                )
    return found


def _price(cost: CostModel, cluster: Cluster, layer: Layer) -> LayerCost:
    worker = cluster.names[-1]
    boxes = {name: Region.full(cost.graph.tensors[name].shape) for name in layer.outputs}
    work = work_builder(cost.graph).stage((layer.name,), boxes)
    use = cost.work_memory(work)
    fits = use.total <= cluster.device(worker).memory_bytes
    return LayerCost(use.total, cost.work_s(worker, work) + cost.swap_s(worker, use), fits)


def _names(costs: Costs) -> list[str]:
    return [name for kind, name in costs if kind == KINDS[0]]


def _table(title: str, costs: Costs) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            1e-6 * costs[KINDS[0], name].memory_bytes,
            *(costs[kind, name].seconds for kind in KINDS),
        )
        for name in _names(costs)
    ]
    columns = ("layer", "memory, MB", *(f"{kind}, s" for kind in KINDS))
    return Table(f"{title}: layers on one device", columns, tuple(rows))


def _latency_chart(title: str, costs: Costs) -> Chart:
    """Bars of seconds; those of layers that do not fit end at twice the longest that does."""
    top = 2 * max(one.seconds for one in costs.values() if one.fits)
    cut = any(one.seconds > top for one in costs.values())
    series = {
        kind: tuple(min(costs[kind, n].seconds, top) for n in _names(costs)) for kind in KINDS
    }
    words = f"{title}: latency of layers{f', bars end at {top:.2g} s' if cut else ''}"
    return Chart(words, "bars", tuple(_names(costs)), series, "layer", "s")


def _memory_chart(title: str, costs: Costs) -> Chart:
    sizes = tuple(1e-6 * costs[KINDS[0], name].memory_bytes for name in _names(costs))
    words = f"{title}: memory of layers"
    return Chart(words, "bars", tuple(_names(costs)), {"memory": sizes}, "layer", "MB")


def claim_minutes(kind: str, model: str, costs: Costs) -> Claim:
    """The first dense layer takes minutes, and all others fit."""
    over = {n: one.seconds for (k, n), one in costs.items() if k == kind and not one.fits}
    words = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in over.items())
    return Claim(
        f"{kind}, {model}",
        "beginning dense layers have extremely long latencies, in order of minutes; all other"
        " layers run on a single device",
        f"not held: {words}" if over else "all layers held",
        list(over) == ["fc6"] and over["fc6"] > _MINUTES_S,
    )


def claim_short(kind: str, model: str, costs: Costs) -> Claim:
    """No layer takes 0.2 s."""
    longest = max((n for k, n in costs if k == kind), key=lambda name: costs[kind, name].seconds)
    return Claim(
        f"{kind}, {model}",
        f"the highest latency is less than {_LOW_S:g} seconds",
        f"at most {costs[kind, longest].seconds:.3g} s ({longest})",
        costs[kind, longest].seconds < _LOW_S,
    )


@figure(PAPER, 15, "Memory and latency of the layers of VGG-16 and C3D")
def make_memory(bench: Bench) -> Drawn:
    """What each layer holds and takes on one device."""
    tables, claims, charts = [], [], []
    for model in ("vgg16", "c3d"):
        bench.advance(model)
        costs = price_layers(bench.graph(model))
        tables.append(_table(f"Figure 15, {model}", costs))
        claims += [claim_minutes(kind, model, costs) for kind in KINDS]
        title = f"Figure 15, {model}"
        charts += [_memory_chart(title, costs), _latency_chart(title, costs)]
    return Drawn(tuple(tables), tuple(claims), tuple(charts), (_NOTE,))


@figure(PAPER, 16, "Latency of the layers of Xception, and whole models on several boards")
def make_xception(bench: Bench) -> Drawn:
    """Xception on one device and in turns on many; ResNet-50, of which the text says the same."""
    tables, claims, charts, scaled = [], [], [], {}
    for model in ("xception", "resnet50"):
        bench.advance(model)
        graph = bench.graph(model)
        costs, scaled[model] = price_layers(graph), scale_all(graph)
        tables += [_table(f"Figure 16, {model}", costs), replica_table(model, scaled[model])]
        for kind in KINDS:
            claims += [
                claim_short(kind, model, costs),
                claim_linear(kind, model, scaled[model][kind]),
            ]
        charts.append(_latency_chart(f"Figure 16, {model}", costs))
    return Drawn(
        tuple(tables), tuple(claims), (charts[0], replica_chart(scaled)), (_NOTE, REPLICA_NOTE)
    )


@figure(PAPER, 18, "Latency of the layers of VGG-16")
def make_vgg(bench: Bench) -> Drawn:
    """VGG-16 on one device: what bounds a pipeline of whole layers."""
    costs = price_layers(bench.graph("vgg16"))
    claims = []
    for kind in KINDS:
        convs = {n: one.seconds for (k, n), one in costs.items() if k == kind and "conv" in n}
        longest = max(convs, key=convs.__getitem__)
        claims.append(
            Claim(
                kind,
                "some layers have extremely long latency (e.g., second convolution layer)",
                f"conv1_2 {convs['conv1_2']:.3g} s, the longest convolution: {longest}"
                f" {convs[longest]:.3g} s",
                convs["conv1_2"] > _ABOUT * convs[longest],
            )
        )
    title = "Figure 18, vgg16"
    return Drawn((_table(title, costs),), tuple(claims), (_latency_chart(title, costs),), (_NOTE,))


#: By kind of device, and whether ports are shared.
Second = Mapping[tuple[str, bool], Sped]


@figure(PAPER, 19, "Latency of the layers of C3D, and its second convolution on three workers")
def make_c3d(bench: Bench) -> Drawn:
    """C3D on one device, and its heaviest layer divided in three ways."""
    bench.advance("c3d")
    costs = price_layers(bench.graph("c3d"))
    second = divide_second(*C3D_SECOND)
    return Drawn(
        (_table("Figure 19a, c3d", costs), _second_table(second)),
        tuple(claim_second(kind, second) for kind in KINDS),
        (_latency_chart("Figure 19a, c3d", costs), _second_chart(second)),
        (_NOTE, SPEED_NOTE, note_second(*C3D_SECOND)),
    )


def divide_second(extent: tuple[int, int, int], depth: int, filters: int, kernel: int) -> Second:
    """Speedups of a 3-D convolution on three workers."""
    graph = conv_graph(extent, depth, filters, kernel)
    splits = {
        "channel": Split("output_channels", 1, filters),
        "spatial": Split("rows", 3, extent[1]),
        "filter": Split("input_channels", 1, depth),
    }
    return {
        (kind, ports): speed_up(graph, make_fleet(kind, _WORKERS, ports=ports), splits)
        for kind in KINDS
        for ports in (True, False)
    }


def _place(kind: str, *, ports: bool) -> str:
    return f"{kind}, {'one port each' if ports else 'a cable per pair'}"


def _second_table(second: Second) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (_place(kind, ports=ports), sped.alone_s, *sped.speedups.values())
        for (kind, ports), sped in second.items()
    )
    columns = ("devices", "one worker, s", "channel", "spatial", "filter")
    return Table("Figure 19b: speedup of the second convolution on three workers", columns, rows)


def _second_chart(second: Second) -> Chart:
    places = tuple(_place(kind, ports=ports) for kind, ports in second)
    series = {
        way: tuple(sped.speedups[way] for sped in second.values())
        for way in ("channel", "spatial", "filter")
    }
    return Chart("Figure 19b: the second convolution", "bars", places, series, "devices", "speedup")


def claim_second(kind: str, second: Second) -> Claim:
    """Up to 2.6 times on three devices, and what moving the maps leaves of it."""
    shared, apart = second[kind, True], second[kind, False]
    return Claim(
        kind,
        f"up to {_C3D_GAIN}x speedup by using only three devices",
        f"{shared.best:.2f}x where each device has one port, {apart.best:.2f}x with a cable per"
        f" pair, of {shared.alone_s:.3g} s on one worker",
        shared.best > _ABOUT * _C3D_GAIN,
    )


def note_second(extent: tuple[int, int, int], depth: int, filters: int, kernel: int) -> str:
    """What limits the second convolution on three workers, in a sentence."""
    moved_s = 4 * prod(extent) * (depth + filters) / PORT_BYTES_PER_S
    # (work + moved) / (work / 3 + moved) is the paper's gain at so much work.
    work_s = moved_s * (_C3D_GAIN - 1) / (1 - _C3D_GAIN / _WORKERS)
    return (
        f"the second convolution's maps alone keep ports busy for {moved_s:.3g} s however it is"
        f" divided: {_C3D_GAIN}x over ports needs a device that computes {work_s:.3g} s for it"
    )
