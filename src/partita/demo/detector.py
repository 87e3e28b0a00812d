"""The plate detector: the network to be divided, and what its three outputs mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from partita.demo.package import DETECTOR, load_resource
from partita.demo.perspective import Quad
from partita.errors import InputError
from partita.program import TensorSpec
from partita.quantisation.pictures import Preparation, prepare_picture

Floats = npt.NDArray[np.floating]
Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]

MODEL_NAME = "plate-detector"
IMAGE_INPUT = "image"
OUTPUTS = ("loc", "conf", "landms")
#: Height and width of the photo, pixels.
IMAGE_SIZE = (480, 640)

#: What the network was trained with: mean per channel in BGR order, and its prior boxes.
_MEAN_BGR = (104.0, 117.0, 123.0)
_STRIDES = (8, 16, 32)
_PRIOR_SIDES = ((24, 48), (96, 192), (384, 768))
CENTRE_VARIANCE, _SIZE_VARIANCE = 0.1, 0.2
#: The network names corners from bottom right clockwise, this package from top left clockwise.
CLOCKWISE_FROM_TOP_LEFT = (2, 3, 0, 1)


@dataclass(frozen=True)
class Detection:
    """A plate that the detector found.

    Attributes:
        box: Left, top, right, bottom in pixels.
        score: How sure the network is, 0 to 1.
        corners: Clockwise from top left, pixels.
    """

    box: Box
    score: float
    corners: Quad


@dataclass(frozen=True)
class DecodeOptions:
    """Which candidates count as plates.

    Attributes:
        least_score: Candidates below it are dropped.
        most_overlap: Of two boxes with more intersection over union, the surer one stays.
    """

    least_score: float = 0.7
    most_overlap: float = 0.4


def detector_model() -> ModelProto:
    """The trained detector for one photo, its preprocessing inside the graph.

    The input ``image`` is uint8 of 1 x 3 x 480 x 640 in BGR order, so that a camera can send
    bytes. The outputs are ``loc`` (1 x 12600 x 4), ``conf`` (1 x 12600 x 2, probabilities of
    background and plate) and ``landms`` (1 x 12600 x 8), float32.

    Raises:
        ModelError: The package with the trained network is missing.
    """
    model = onnx.load_from_string(load_resource(DETECTOR))
    graph = model.graph
    graph.name = MODEL_NAME
    for node in graph.node:
        node.input[:] = ["image_centred" if name == IMAGE_INPUT else name for name in node.input]
    mean = np.array(_MEAN_BGR, np.float32).reshape(1, 3, 1, 1)
    graph.initializer.append(numpy_helper.from_array(mean, "image_mean"))
    graph.node.insert(0, helper.make_node("Cast", [IMAGE_INPUT], ["image_f32"], to=1))
    graph.node.insert(1, helper.make_node("Sub", ["image_f32", "image_mean"], ["image_centred"]))
    count = len(make_priors(*IMAGE_SIZE))
    _replace(graph.input, [_value(IMAGE_INPUT, TensorProto.UINT8, (1, 3, *IMAGE_SIZE))])
    widths = dict(zip(OUTPUTS, (4, 2, 8), strict=True))
    _replace(
        graph.output, [_value(name, TensorProto.FLOAT, (1, count, n)) for name, n in widths.items()]
    )
    return model


def image_to_input(pixels: Pixels) -> Pixels:
    """A photo (height x width x 3, RGB) as the detector's input (1 x 3 x ..., BGR).

    Raises:
        InputError: The photo has another shape or type than the network was fixed to.
    """
    if pixels.shape != (*IMAGE_SIZE, 3) or pixels.dtype != np.uint8:
        raise InputError(
            f"Photo has the wrong form: {pixels.dtype} {pixels.shape}, "
            f"allowed uint8 {(*IMAGE_SIZE, 3)}.",
            subject=IMAGE_INPUT,
        )
    spec = TensorSpec(IMAGE_INPUT, (1, 3, *IMAGE_SIZE), "uint8")
    return prepare_picture(spec, pixels, Preparation(color="bgr"))


@lru_cache(maxsize=4)
def make_priors(height: int, width: int) -> npt.NDArray[np.float64]:
    """The candidates that the outputs' rows correct: centre x, centre y, side in pixels.

    Rows go through the three grids from fine to coarse, each row by row, two sides per place.
    """
    grids = []
    for stride, sides in zip(_STRIDES, _PRIOR_SIDES, strict=True):
        centre_y, centre_x, side = np.meshgrid(
            (np.arange(-(-height // stride)) + 0.5) * stride,
            (np.arange(-(-width // stride)) + 0.5) * stride,
            np.array(sides, float),
            indexing="ij",
        )
        grids.append(np.stack([centre_x, centre_y, side], axis=-1).reshape(-1, 3))
    return np.concatenate(grids)


def decode_detections(
    outputs: Sequence[Floats],
    *,
    size: tuple[int, int] = IMAGE_SIZE,
    options: DecodeOptions | None = None,
) -> list[Detection]:
    """The plates that the detector's outputs mean, from left to right.

    Args:
        outputs: ``loc``, ``conf`` and ``landms`` of one photo, in this order.
        size: Height and width of the photo, pixels.
        options: Thresholds; the defaults are those the network was published with.
    """
    options = options or DecodeOptions()
    shifts, scores, corner_shifts = (np.asarray(output[0], np.float64) for output in outputs)
    likely = np.flatnonzero(scores[:, 1] >= options.least_score)
    likely = likely[np.argsort(-scores[likely, 1], kind="stable")]
    priors = make_priors(*size)[likely]
    centres, sides = priors[:, None, :2], priors[:, None, 2:]
    middle = centres[:, 0] + shifts[likely, :2] * CENTRE_VARIANCE * sides[:, 0]
    extent = sides[:, 0] * np.exp(shifts[likely, 2:] * _SIZE_VARIANCE)
    boxes = np.concatenate([middle - extent / 2, middle + extent / 2], axis=1)
    corners = corner_shifts[likely].reshape(-1, 4, 2)[:, CLOCKWISE_FROM_TOP_LEFT, :]
    corners = centres + corners * CENTRE_VARIANCE * sides
    detections = [
        Detection(_box(boxes[index]), float(scores[likely[index], 1]), _quad(corners[index]))
        for index in suppress_overlaps(boxes, options.most_overlap)
    ]
    return sorted(detections, key=lambda detection: detection.box[0])


def suppress_overlaps(boxes: Floats, most_overlap: float) -> list[int]:
    """The boxes that stay when each, surest first, removes those it overlaps too much.

    Args:
        boxes: Left, top, right, bottom per row, surest first.
        most_overlap: Intersection over union, 0 to 1.
    """
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    kept: list[int] = []
    for index, box in enumerate(boxes):
        low = np.maximum(boxes[kept, :2], box[:2])
        high = np.minimum(boxes[kept, 2:], box[2:])
        common = np.prod(np.clip(high - low, 0, None), axis=1)
        if np.all(common <= most_overlap * (areas[kept] + areas[index] - common)):
            kept.append(index)
    return kept


def _value(name: str, kind: int, shape: Sequence[int]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


def _replace(field: object, values: Sequence[ValueInfoProto]) -> None:
    del field[:]  # type: ignore[attr-defined]
    field.extend(values)  # type: ignore[attr-defined]


def _box(row: Floats) -> Box:
    left, top, right, bottom = (float(value) for value in row)
    return left, top, right, bottom


def _quad(points: Floats) -> Quad:
    a, b, c, d = ((float(x), float(y)) for x, y in points)
    return a, b, c, d
