"""Systolic arrays: the formula by hand and against SCALE-Sim, memory, and devices of that kind."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from onnx import TensorProto

from partita.cluster import (
    OWN_ARRAY,
    Array,
    Cluster,
    Device,
    dump_cluster,
    find_entry,
    load_cluster,
)
from partita.cost import Amounts, CostModel, CostOptions
from partita.cost.amount import Amount
from partita.cost.systolic import layer_s, moved_bytes, product_steps
from partita.errors import ClusterError
from partita.graph import load_graph
from partita.graph.work import Products
from partita.quantisation import quantize
from partita.regions import LayerBits, Region
from partita.zoo import ZOO, build_model
from partita.zoo.builder import Builder
from partita.zoo.weights import DrawnWeights
from tests.cost.fakes import conv_graph, photo_graph, straight_profile

#: SCALE-Sim 3.0.0, written by ``python -m tools.scale_sim PYTHON``.
GOLDEN = Path(__file__).parent / "scale_sim.csv"
#: Two rows of three multipliers, at one step per second, with room for ten numbers to be kept.
SMALL = Array(2, 3, "os", 1.0, 20, 1e9)
#: (4 x 5) times (5 x 7): 140 multiply-accumulates.
PRODUCTS = Products(4, 5, 7, 1, ("x", "w"))


def like_small(**changes: object) -> Array:
    """Return ``SMALL`` with other values."""
    return msgspec.structs.replace(SMALL, **changes)


def an_amount(**changes: object) -> Amount:
    """Return a layer of one product, 8 bits everywhere, and four rows."""
    amount = Amount(
        "l", "Conv", "dense", 140, 0, 0, 4, 7,
        products=(PRODUCTS,), operand_bits=8,
        weights=((35, 8),), inputs=((20, 8),), outputs=((28, 8),),
    )  # fmt: skip
    return replace(amount, **changes)


def seconds(array: Array, amount: Amount, rows: float = 4, bits: int = 32) -> float:
    """Return the seconds of some rows."""
    return float(layer_s(array, amount, np.array([rows]), bits)[0])


@pytest.mark.parametrize(
    ("dataflow", "steps"),
    [
        ("os", 2 * 3 * (2 + 3 + 5 - 2)),
        ("ws", 3 * 3 * (2 * 2 + 3 + 4 - 2)),
        ("is", 3 * 2 * (2 * 2 + 3 + 7 - 2)),
    ],
)
def test_steps_follow_the_formula(dataflow: str, steps: int) -> None:
    """Tiles of the grid, times the passing dimension and the filling and emptying of the grid."""
    array = like_small(dataflow=dataflow)
    assert product_steps(array, PRODUCTS, np.array([4.0])) == [steps]
    twice = replace(PRODUCTS, count=2)
    assert product_steps(array, twice, np.array([4.0])) == [2 * steps]


def read_golden() -> list[dict[str, str]]:
    """Return the lines of the golden file."""
    with GOLDEN.open(newline="") as file:
        return list(csv.DictReader(file))


def golden_products(line: dict[str, str]) -> Products:
    """Return the product that a line's convolution is."""
    sizes = ("height", "width", "kernel", "channels", "filters", "stride")
    height, width, kernel, channels, filters, stride = (int(line[name]) for name in sizes)
    positions = ((height - kernel) // stride + 1) * ((width - kernel) // stride + 1)
    return Products(positions, kernel**2 * channels, filters, 1, ("x", "w"))


def test_steps_are_those_of_scale_sim() -> None:
    """A dozen layers on both grids in three dataflows, each to the step.

    SCALE-Sim gives the number of the last step, counted from 0.
    """
    lines = read_golden()
    assert len(lines) == 72
    for line in lines:
        array = msgspec.structs.replace(find_entry(line["kind"]).array, dataflow=line["dataflow"])
        products = golden_products(line)
        (steps,) = product_steps(array, products, np.array([float(products.rows)]))
        assert steps - 1 == int(line["steps"]), line


def test_layers_of_networks_are_the_products_compared() -> None:
    """The products of MobileNet-v2's layers, one group each, are those given to SCALE-Sim."""
    layers = Amounts(load_graph(build_model("mobilenet_v2"))).layers
    lines = [line for line in read_golden() if line["model"] == "mobilenet_v2"]
    for line in lines:
        (products,) = layers[line["layer"]].products
        wanted = golden_products(line)
        assert (products.rows, products.inner, products.columns) == (
            wanted.rows, wanted.inner, wanted.columns
        )  # fmt: skip
    assert layers["block1.depthwise.conv"].products[0].count == 32


def test_layers_compared_are_those_of_the_zoo() -> None:
    """Sizes given to SCALE-Sim are those of the models' nodes, pads and groups considered."""
    lines = [line for line in read_golden() if line["dataflow"] == "os"]
    for name in {line["model"] for line in lines}:
        builder = Builder(name, weights=DrawnWeights(0, filled=False))
        outputs = ZOO[name].add(builder, builder.add_input("input", (1, *ZOO[name].shape)))
        graph = builder.finish(*([outputs] if isinstance(outputs, str) else outputs)).graph
        dims = {weight.name: weight.dims for weight in graph.initializer}
        nodes = {node.name: node for node in graph.node}
        for line in (line for line in lines if line["model"] == name):
            node, wanted = nodes[line["layer"]], golden_products(line)
            groups = next((item.i for item in node.attribute if item.name == "group"), 1)
            filters, *window = dims[node.input[1]]
            assert math.prod(builder.shapes[node.output[0]][2:]) == wanted.rows
            assert (math.prod(window), filters // groups) == (wanted.inner, wanted.columns)


def test_a_layer_takes_the_longer_of_steps_and_memory() -> None:
    """At a slow clock the steps count, at a slow memory the 35 + 20 + 28 bytes."""
    amount = an_amount()
    assert seconds(like_small(on_chip_bytes=1000), amount) == 48.0
    slow = like_small(on_chip_bytes=1000, clock_hz=1e9, off_chip_bytes_per_s=10.0)
    assert seconds(slow, amount) == 8.3


def test_what_does_not_fit_the_chip_is_read_again() -> None:
    """Of 20 bytes half keep inputs in two parts, or weights in four: the first moves less."""
    amount, share = an_amount(), np.ones(1)
    assert moved_bytes(like_small(on_chip_bytes=40), amount, share, 8) == [35 + 20 + 28]
    assert moved_bytes(like_small(on_chip_bytes=20), amount, share, 8) == [2 * 35 + 20 + 28]
    assert moved_bytes(like_small(on_chip_bytes=20), amount, share / 2, 8) == [35 + 10 + 14]
    few = an_amount(weights=((15, 8),))
    assert moved_bytes(like_small(on_chip_bytes=20), few, share, 8) == [2 * 15 + 20 + 28]


def test_layers_without_products_move_their_bytes_once() -> None:
    """Pooling takes the memory's time, however large its map."""
    pool = an_amount(products=(), operand_bits=0, weights=())
    assert seconds(like_small(off_chip_bytes_per_s=2.0), pool) == 24.0


def test_bits_below_8_change_bytes_alone() -> None:
    """Two bits move a quarter of the bytes in as many steps as eight."""
    eight = an_amount()
    two = an_amount(operand_bits=2, weights=((35, 2),), inputs=((20, 2),), outputs=((28, 2),))
    by_steps = like_small(on_chip_bytes=1000)
    assert seconds(by_steps, two) == seconds(by_steps, eight)
    by_bytes = like_small(on_chip_bytes=1000, clock_hz=1e9, off_chip_bytes_per_s=10.0)
    assert seconds(by_bytes, two) == seconds(by_bytes, eight) / 4


def test_wide_numbers_may_take_more_steps() -> None:
    """Floats are 16-bit numbers: twice the bytes, and as many steps as the array says."""
    wide = an_amount(operand_bits=32, weights=((35, 32),), inputs=((20, 32),), outputs=((28, 32),))
    array = like_small(on_chip_bytes=1000)
    assert seconds(array, wide) == 48.0
    assert seconds(like_small(on_chip_bytes=1000, wide_steps=2), wide) == 96.0
    assert seconds(like_small(on_chip_bytes=1000, wide_steps=2), wide, bits=8) == 48.0
    assert moved_bytes(array, wide, np.ones(1), 16) == [2 * (35 + 20 + 28)]


@pytest.mark.parametrize(("kind", "macs_per_s"), [("eyeriss", 33.6e9), ("tpu-v1", 45.8752e12)])
def test_catalogue_arrays_are_the_papers(kind: str, macs_per_s: float) -> None:
    """Table 1 of 'AUTO-SPLIT': 34 GOPs of one operation each, 96 TOPs of two (91.75)."""
    entry = find_entry(kind)
    assert entry.array is not None
    assert entry.array.macs_per_s == pytest.approx(macs_per_s)
    assert set(entry.peak_macs_per_s.values()) == {entry.array.macs_per_s}
    assert entry.array.off_chip_bytes_per_s == entry.memory_bytes_per_s


def test_devices_of_the_catalogue_and_own_arrays_are_priced() -> None:
    """A kind's array, a device's own before it, and one without any other kind."""
    graph = conv_graph()
    entry = find_entry("eyeriss")
    fast = msgspec.structs.replace(entry.array, clock_hz=4e8, off_chip_bytes_per_s=1e12)
    devices = [
        Device("kind", kind="eyeriss"),
        Device("own", kind="eyeriss", array=fast),
        Device("other", kind=OWN_ARRAY, array=fast),
    ]
    cost = CostModel(graph, Cluster.of(devices))
    box = {"t1": graph_box()}
    kind_s, own_s, other_s = (cost.layer_s(name, "c0", box) for name in ("kind", "own", "other"))
    # 36 inner and 4 columns on 12 x 14 multipliers; 16 x 16 positions pass.
    assert own_s == other_s == pytest.approx(3 * (2 * 12 + 14 + 256 - 2) / 4e8)
    # 144 weights and 1024 numbers in and out, of 16 bits at 1 GB/s, take longer than the steps.
    assert kind_s == pytest.approx(2 * (144 + 2 * 1024) / 1e9)
    slower = CostModel(graph, Cluster.of(devices), profiles={"kind": straight_profile(graph)})
    assert slower.layer_s("kind", "c0", box) == pytest.approx(0.010)


def graph_box() -> Region:
    """Return the whole output of ``conv_graph``'s first layer."""
    return Region.full((1, 4, 16, 16))


def test_precision_sets_the_bytes() -> None:
    """In int8 a layer that waits for its memory takes half the time of float16, its default."""
    graph, found = conv_graph(), {}
    slow = msgspec.structs.replace(find_entry("eyeriss").array, off_chip_bytes_per_s=1e6)
    for precision in (None, "float16", "int8"):
        cluster = Cluster.of([Device("a", kind=OWN_ARRAY, array=slow)])
        cost = CostModel(graph, cluster, options=CostOptions(precision=precision))
        found[precision] = cost.layer_s("a", "c0", {"t1": graph_box()})
    assert found[None] == found["float16"] == 2 * found["int8"]


def test_a_device_without_array_says_what_it_lacks() -> None:
    """The systolic estimator on a measured machine is an error that names the device."""
    graph = conv_graph()
    with pytest.raises(ClusterError, match="'a' is no systolic array: the systolic estimator"):
        CostModel(graph, Cluster.of(["a"]), estimator="systolic", profiles=straight_profile(graph))


def test_cluster_files_describe_arrays() -> None:
    """An array of one's own needs neither kind nor profile, and memory."""
    cluster = load_cluster(
        b"""
        [cluster]
        requester = "camera"
        [[device]]
        name = "camera"
        memory = "64 MB"
        [device.array]
        rows = 8
        columns = 16
        dataflow = "is"
        clock = "500 MHz"
        on_chip = "128 KiB"
        off_chip = "2 GB/s"
        wide_steps = 2
        """
    )
    camera = cluster.device("camera")
    assert camera.kind == OWN_ARRAY
    assert camera.array == Array(8, 16, "is", 5e8, 131_072, 2e9, 2)
    assert load_cluster(dump_cluster(cluster).encode()).device("camera") == camera


def test_wrong_arrays_are_listed_key_by_key() -> None:
    """Every broken rule of an array is named with its place; a kind alone is not enough."""
    with pytest.raises(ClusterError) as caught:
        load_cluster(
            b"""
            [cluster]
            requester = "a"
            [[device]]
            name = "a"
            array = { rows = 0, columns = 4, dataflow = "rs", clock = "5", on_chip = "1 kB" }
            [[device]]
            name = "b"
            kind = "systolic-array"
            [[device]]
            name = "c"
            memory = "1 GB"
            array = "eyeriss"
            """
        )
    text = str(caught.value)
    for rule in (
        "device[0].array.rows: 0 must be a whole number from 1 to 65536",
        "device[0].array.dataflow: 'rs' is unknown; known are os, ws, is",
        "device[0].array.clock: '5' has no unit; allowed units: Hz, kHz, MHz, GHz",
        "device[0].array.off_chip: missing",
        "only kinds of the catalogue have a default (and so for device[1])",
        "device[1].array: missing; kind 'systolic-array' has no default",
        "device[2].array: 'eyeriss' must be a table",
    ):
        assert rule in text


def test_a_quantised_graphs_codes_are_what_moves() -> None:
    """Amounts know the bits of codes: weights of 4, what a layer reads and makes of 8 and 2."""
    bits = {
        "c0": LayerBits(activation=8, low=-4.0, high=4.0),
        "c1": LayerBits(weight=4, activation=2, low=-4.0, high=4.0),
    }
    plain, quantised = conv_graph(), quantize(conv_graph(), bits)
    amount = Amounts(quantised).layers["c1"]
    assert amount.operand_bits == 8
    assert amount.inputs == ((1024, 8),)
    assert amount.outputs == ((1024, 2),)
    assert amount.weights[0] == (144, 4)
    assert Amounts(plain).layers["c1"].operand_bits == 32
    array = like_small(on_chip_bytes=10_000, clock_hz=1e12)
    moved = moved_bytes(array, amount, np.ones(1), 16)
    assert moved == pytest.approx(144 / 2 + 1024 + 1024 / 4, abs=20)  # and the scales


def test_a_photo_of_bytes_makes_no_network_of_bytes() -> None:
    """What layers multiply counts: a float network takes as long whatever its input's type is."""
    array = like_small(wide_steps=2.0, on_chip_bytes=4096, off_chip_bytes_per_s=1e6)
    kinds = [Device("a", kind=OWN_ARRAY, array=array), Device("b", "laptop")]
    box = {"y": Region.full((1, 16, 14, 14))}
    took = []
    for dtype in (TensorProto.UINT8, TensorProto.DOUBLE):
        graph = photo_graph(dtype)
        assert graph.number_type == "float32"
        cost = CostModel(graph, Cluster.of(kinds))
        took.append([cost.layer_s(name, graph.layers[-1].name, box) for name in ("a", "b")])
    assert took[0] == took[1]
