"""Tables 9 and 10, Figure 8: what crosses cuts, and which layers detectors read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from partita.graph import Graph
from partita.planners.edgecloud.network import Network, network_of
from partita.reproduce.autosplit.numbering import weighted_groups
from partita.reproduce.autosplit.setting import INPUT_BITS, PAPER
from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure

#: Table 9: the layers whose outputs a detector collects.
_COLLECTED = {
    "yolov3_tiny": (16, 23),
    "yolov3": (82, 94, 106),
    "yolov3_spp": (89, 101, 113),
    "faster_rcnn": (10, 23, 42, 52),
}
#: Layers of Darknet's configurations; a layer of the zoo is as many of them as its nodes.
_DARKNET = ("Conv", "Add", "Concat", "Resize", "MaxPool")
#: Table 10: layer and elements, and the difference from the input's as printed.
_TABLE_10 = {46: (100_352, -5076), 49: (100_352, -5076), 52: (100_352, -5076),
             53: (1000, -149_528)}  # fmt: skip


@figure(PAPER, 9, "Layers that detectors collect", kind="table")
def make_collected(bench: Bench) -> Drawn:
    """The indices counted in the zoo's networks."""
    counted = {}
    for name in _COLLECTED:
        bench.advance(name)
        graph = bench.graph(name)
        is_darknet = name.startswith("yolo")
        counted[name] = _count_darknet(graph) if is_darknet else _count_collected(graph)
    rows = tuple((name, _list(paper), _list(counted[name])) for name, paper in _COLLECTED.items())
    table = Table("Table 9", ("model", "paper", "counted"), rows, text_columns=3)
    claims = tuple(
        Claim(name, _list(paper), _list(counted[name]), counted[name] == paper, "count")
        for name, paper in _COLLECTED.items()
    )
    notes = (
        "YOLO's are Darknet's layers, where sums, pools, concatenations and routes count, Faster"
        " R-CNN's the layers with weights: the last one of each group of ResNet-50",
    )
    return Drawn((table,), claims, (), notes)


def _list(indices: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, indices))}]"


def _count_darknet(graph: Graph) -> tuple[int, ...]:
    """The numbers of Darknet's detection layers.

    In front of each but the first is a route back to the layer that is read again, and so is one in
    front of each pool beside another.
    """
    found: list[int] = []
    number = 0
    pooled: set[str] = set()
    for layer in graph.layers:
        nodes = [graph.nodes[place].op for place in layer.nodes]
        number += sum(op in _DARKNET for op in nodes)
        if nodes[0] == "MaxPool":
            number += layer.inputs[0] in pooled
            pooled.add(layer.inputs[0])
        if set(layer.outputs) & set(graph.outputs):
            found.append(number)
            number += 2
    return tuple(found)


def _count_collected(graph: Graph) -> tuple[int, ...]:
    """The numbers of the backbone's layers that the feature pyramid reads."""
    groups = weighted_groups(graph)
    number = {name: place for place, group in enumerate(groups) for name in group}
    read = (
        graph.producer(tensor)
        for layer in graph.layers
        if layer.name.startswith("fpn.inner")
        for tensor in layer.inputs[:1]
    )
    return tuple(sorted(number[maker.name] for maker in read if maker is not None))


@dataclass(frozen=True)
class _Cut:
    index: int
    name: str
    tensors: int
    elements: int


def list_cuts(graph: Graph) -> tuple[Network, list[_Cut]]:
    """The cut after each layer with weights, by the paper's numbers."""
    groups = weighted_groups(graph)
    network = network_of(graph, [name for group in groups for name in group])
    cuts, done = [], 0
    for index, group in enumerate(groups):
        done += len(group)
        crossing = network.crossing[done] or (len(network.sizes) - 1,)
        elements = sum(network.sizes[tensor] for tensor in crossing)
        name = next(name for name in group if graph.layer(name).macs)
        cuts.append(_Cut(index, name, len(crossing), elements))
    return network, cuts


@figure(PAPER, 10, "The last cuts of ResNet-50", kind="table")
def make_last_cuts(bench: Bench) -> Drawn:
    """Cuts of one tensor that is smaller than the input."""
    network, cuts = list_cuts(bench.graph("resnet50"))
    whole = network.sizes[0]
    single = [cut for cut in cuts if cut.tensors == 1 and cut.elements <= whole]
    rows: list[tuple[Cell, ...]] = [
        (cut.name, cut.index, _TABLE_10.get(cut.index, (None, None))[0], cut.elements,
         _TABLE_10.get(cut.index, (None, None))[1], cut.elements - whole)
        for cut in single
    ]  # fmt: skip
    table = Table(
        "Table 10: ResNet-50's cuts of one tensor no larger than the input",
        ("layer", "index", "volume, paper", "counted", "difference, paper", "counted"),
        tuple(rows),
        digits=9,
    )
    ours = {cut.index: cut.elements for cut in single}
    claims = [
        Claim(
            "ResNet-50",
            f"splits towards the end are {_list(tuple(_TABLE_10))}",
            _list(tuple(ours)),
            tuple(ours) == tuple(_TABLE_10),
            "count",
        )
    ]
    for volume, printed in dict.fromkeys(_TABLE_10.values()):
        difference = volume - whole
        claims.append(
            Claim(
                f"a volume of {volume:,}",
                f"differs from the input's by {printed:,}",
                f"{difference:,}",
                difference == printed,
                "count",
            )
        )
    return Drawn((table,), tuple(claims), (), ("-5076 is -50,176 without its zero: a slip",))


@figure(PAPER, 8, "What crosses Faster R-CNN's and YOLOv3's cuts")
def make_crossings(bench: Bench) -> Drawn:
    """Elements that cross the cut after each layer over those of the input."""
    found: dict[str, list[float]] = {}
    for name in ("faster_rcnn", "yolov3"):
        bench.advance(name)
        network, cuts = list_cuts(bench.graph(name))
        found[name] = [cut.elements / network.sizes[0] for cut in cuts]
    return draw_crossings(found)


def draw_crossings(found: Mapping[str, list[float]]) -> Drawn:
    """Figure 8 from the elements over the input's, by cut."""
    most = max(map(len, found.values()))
    places = tuple(float(place) for place in range(most))
    series = {
        name: tuple(shares[place] if place < len(shares) else None for place in range(most))
        for name, shares in found.items()
    }
    chart = Chart(
        "Figure 8: elements that cross a cut over those of the input",
        "lines",
        places,
        {**series, "input": (1.0,) * most},
        "last layer with weights before the cut",
        "elements / input",
    )
    rows: list[tuple[Cell, ...]] = []
    claims = []
    for name, shares in found.items():
        body = shares[: _COLLECTED_LAST[name]]
        widths = {bits: sum(share * bits <= INPUT_BITS for share in body) for bits in (8, 4, 2)}
        rows.append((name, len(body), min(body), *widths.values()))
        splits = name == "yolov3"
        words = "SPLIT solutions are there" if splits else "no SPLIT beats sending the input"
        claims.append(
            Claim(
                name,
                words,
                f"{widths[8]}, {widths[4]} and {widths[2]} of {len(body)} cuts before the last"
                " collected layer send less than the input in 8, 4 and 2 bits",
                (widths[2] > 0) == splits,
                "count",
            )
        )
    table = Table(
        "Figure 8: cuts before the last collected layer that send less than the input",
        ("model", "cuts", "least elements/input", "8 bits", "4 bits", "2 bits"),
        tuple(rows),
    )
    notes = (
        "the paper's figure is a drawing of the two networks: its sentences in appendix B are"
        " compared. It says 0 to 82 and layer 33 of YOLOv3-spp, whose first collected layer is 89:"
        " those are YOLOv3's",
    )
    return Drawn((table,), tuple(claims), (chart,), notes)


#: The last layer with weights before all collected ones are made.
_COLLECTED_LAST = {"faster_rcnn": 53, "yolov3": 58}
