"""The networks of the AUTO-SPLIT paper (Banitalebi-Dehkordi et al. 2021) have its sizes and places.

Its split indices count convolutions and dense layers from 0 in the order of the graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx
import pytest

from partita.zoo import ZOO
from partita.zoo.builder import Builder
from partita.zoo.weights import DrawnWeights

MIB = 2**20


@dataclass(frozen=True)
class Convolution:
    """A convolution or dense layer: its name, its weights and its output's elements."""

    name: str
    weights: int
    outputs: int


def build(name: str, size: int | None = None) -> tuple[onnx.ModelProto, dict[str, tuple[int, ...]]]:
    """A model without values, and the shapes of its tensors."""
    entry = ZOO[name]
    shape = entry.shape if size is None else (*entry.shape[:-2], size, size)
    builder = Builder(name, weights=DrawnWeights(0, filled=False))
    outputs = entry.add(builder, builder.add_input("input", (1, *shape)))
    return builder.finish(*([outputs] if isinstance(outputs, str) else outputs)), builder.shapes


def list_convolutions(name: str) -> list[Convolution]:
    """The convolutions and dense layers of a model, in order."""
    model, shapes = build(name)
    weights = {weight.name: math.prod(weight.dims) for weight in model.graph.initializer}
    return [
        Convolution(node.name, weights[node.input[1]], math.prod(shapes[node.output[0]]))
        for node in model.graph.node
        if node.op_type in ("Conv", "Gemm")
    ]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("resnet18", 21),
        ("resnet50", 54),
        ("resnext50_32x4d", 54),
        ("googlenet", 58),
        ("mobilenet_v2", 53),
        ("mnasnet1_0", 53),
        ("yolov3", 75),
        ("yolov3_spp", 76),
        ("yolov3_tiny", 13),
    ],
)
def test_layers_are_as_many_as_published(name: str, count: int) -> None:
    """The convolutions of the papers and configurations, and a classifier's dense layer."""
    assert len(list_convolutions(name)) == count


@pytest.mark.parametrize(
    ("name", "index", "bits", "mebibytes"),
    [
        ("resnet50", 53, 16, 50.17),
        ("resnet50", 53, 4, 12.54),
        ("yolov3", 58, 16, 118.40),
        ("yolov3", 58, 4, 29.60),
        ("yolov3", 33, 8, 13.33),
        ("yolov3_spp", 52, 4, 22.23),
        ("yolov3_spp", 1, 2, 1.325),
        ("yolov3_tiny", 7, 4, 4.445),
        ("yolov3_tiny", 7, 8, 8.89),
        ("googlenet", 18, 16, 3.33),
    ],
)
def test_table_2_counts_weights_and_the_largest_map(
    name: str, index: int, bits: int, mebibytes: float
) -> None:
    """Table 2's sizes: weights up to the split and the largest output, at as many bits each.

    Printed are 50, 12.5, 118, 29.6, 13.3, 22.2, 1.3, 4.44, 8.8, and 3.5 for GoogLeNet, which is
    3.33 MiB (3.49 MB).
    """
    edge = list_convolutions(name)[: index + 1]
    elements = sum(layer.weights for layer in edge) + max(layer.outputs for layer in edge)
    assert elements * bits / 8 / MIB == pytest.approx(mebibytes, abs=0.006)


def test_table_2_elements() -> None:
    """The numbers of elements behind the sizes: weights to the split, and the largest output."""
    wanted = {
        ("resnet50", 53): (25_502_912, 802_816),
        ("yolov3", 58): (56_538_976, 5_537_792),
        ("yolov3", 33): (8_436_576, 5_537_792),
        ("yolov3_spp", 52): (41_073_504, 5_537_792),
        ("yolov3_spp", 1): (19_296, 5_537_792),
        ("yolov3_tiny", 7): (6_552_496, 2_768_896),
        ("googlenet", 18): (943_808, 802_816),
    }
    for (name, index), (weights, largest) in wanted.items():
        edge = list_convolutions(name)[: index + 1]
        assert sum(layer.weights for layer in edge) == weights
        assert max(layer.outputs for layer in edge) == largest


@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [("yolov3", 248_007_048), ("yolov3_tiny", 35_434_956), ("yolov3_spp", 252_209_544)],
)
def test_yolos_fit_the_published_weights(name: str, size_bytes: int) -> None:
    """Darknet's files have a header of 20 bytes and one float per number, statistics included."""
    model, _ = build(name)
    floats = [w for w in model.graph.initializer if w.data_type == onnx.TensorProto.FLOAT]
    assert 20 + 4 * sum(math.prod(weight.dims) for weight in floats) == size_bytes


@pytest.mark.parametrize(
    ("name", "size", "giga_operations"),
    [("yolov3", 416, 65.86), ("yolov3", 608, 140.69), ("yolov3_tiny", 416, 5.56),
     ("yolov3_spp", 608, 141.45)],
)  # fmt: skip
def test_yolos_compute_what_is_published(name: str, size: int, giga_operations: float) -> None:
    """The table of pjreddie.com/darknet/yolo, which counts an addition beside a multiplication."""
    model, shapes = build(name, size)
    dims = {weight.name: weight.dims for weight in model.graph.initializer}
    macs = sum(
        math.prod(shapes[node.output[0]]) * math.prod(dims[node.input[1]][1:])
        for node in model.graph.node
        if node.op_type == "Conv"
    )
    assert round(2 * macs / 1e9, 2) == giga_operations


@pytest.mark.parametrize(
    ("name", "indices"),
    [
        ("yolov3_tiny", [16, 23]),
        ("yolov3", [82, 94, 106]),
        ("yolov3_spp", [89, 101, 113]),
    ],
)
def test_yolo_layers_have_darknets_indices(name: str, indices: list[int]) -> None:
    """Table 9: the places at which detections are collected, as Darknet counts layers.

    It also counts routes that only name an earlier layer: one behind each detection layer, which
    counts itself, and two inside the pyramid.
    """
    model, _ = build(name)
    counted = ("Conv", "MaxPool", "Add", "Concat", "Resize")
    nodes = [node.name for node in model.graph.node if node.op_type in counted]
    found = []
    for number in range(1, len(indices) + 1):
        unseen = 2 * (number - 1) + (2 if name == "yolov3_spp" else 0)
        found.append(nodes.index(f"detections{number}") + 1 + unseen)
    assert found == indices


def test_pyramid_collects_the_ends_of_the_groups() -> None:
    """Table 9: the pyramid reads what convolutions 10, 23, 42 and 52 end (counted from 0)."""
    model, _ = build("faster_rcnn")
    convolutions = [node.name for node in model.graph.node if node.op_type == "Conv"]
    makers = {node.output[0]: node for node in model.graph.node}
    found = []
    for level in range(2, 6):
        relu = makers[makers[f"fpn.inner{level}"].input[0]]
        branch = makers[makers[relu.input[0]].input[0]]
        found.append(convolutions.index(makers[branch.input[0]].name))
    assert found == [10, 23, 42, 52]


def test_faster_rcnn_is_torchvisions() -> None:
    """41,755,286 parameters and 134.38 GFLOPS (torchvision's table), the second stage included.

    Its box head: two dense layers of 1024 behind maps of 256 x 7 x 7, 91 classes and their boxes,
    for 1000 proposals. Fixed normalisations are no parameters there: 53,120 scales and shifts.
    """
    sizes = [(256 * 7 * 7, 1024), (1024, 1024), (1024, 91), (1024, 4 * 91)]
    head = sum((inputs + 1) * outputs for inputs, outputs in sizes)
    entry = ZOO["faster_rcnn"]
    assert entry.parameters == 41_755_286 - head + 53_120
    macs = entry.macs + 1000 * sum(inputs * outputs for inputs, outputs in sizes)
    assert round(macs / 1e9, 2) == 134.38


def test_heads_share_their_weights() -> None:
    """Every level of the pyramid is read by the same three convolutions; shapes halve."""
    model, shapes = build("faster_rcnn")
    for kind in ("rpn{}.conv", "scores{}", "boxes{}"):
        names = {kind.format(level) for level in range(2, 7)}
        weights = {tuple(n.input[1:]) for n in model.graph.node if n.name in names}
        assert len(weights) == 1
    assert [shapes[f"boxes{level}"] for level in range(2, 7)] == [
        (1, 12, extent, extent) for extent in (200, 100, 50, 25, 13)
    ]


@pytest.mark.parametrize(
    ("name", "extents"),
    [("yolov3", [13, 26, 52]), ("yolov3_spp", [13, 26, 52]), ("yolov3_tiny", [13, 26])],
)
def test_yolos_detect_at_several_scales(name: str, extents: list[int]) -> None:
    """Each map has three anchors of 85 numbers per position, at half the stride of the last."""
    _, shapes = build(name)
    found = [shapes[f"detections{number}"] for number in range(1, len(extents) + 1)]
    assert found == [(1, 255, extent, extent) for extent in extents]
