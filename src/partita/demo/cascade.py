"""Detector, crop and reader as one network: from a photo of one plate to its characters.

The crop is ordinary nodes between the two networks, so that a cut may lie anywhere: within the
detector, where the plate leaves the photo as a small picture of bytes, within the reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, compose, numpy_helper, parser

from partita.demo.detector import (
    CENTRE_VARIANCE,
    CLOCKWISE_FROM_TOP_LEFT,
    IMAGE_INPUT,
    IMAGE_SIZE,
    DecodeOptions,
    Detection,
    detector_model,
    make_priors,
)
from partita.demo.reader import MARGIN, PlateRead, Reader
from partita.graph import Graph, load_graph

#: The plate as it leaves the photo: bytes.
STRIP = "crop/strip"
#: The answers: likeliest class by position, corners of the likeliest plate, how sure that is.
CLASSES, CORNERS, SCORE = "text/classes", "crop/corners", "crop/score"

#: Corners a, b, c, d of a plate; (1, g, h) are quotients of cross products of b - c, d - c and
#: a - b + c - d, and the weights that make of three corners the map of the unit square (Heckbert,
#: "Fundamentals of texture mapping and image warping", 1989, section 2.2.3).
_CROP = """
<ir_version: 8, opset_import: ["": 18]>
crop (uint8[1,3,HEIGHT,WIDTH] image, float[1,COUNT,2] conf, float[1,COUNT,8] landms)
  => (uint8[1,3,TALL,WIDE] strip, float[4,2] corners, float[1] score)
{
  likely = Gather <axis = 2> (conf, one)
  score = ReduceMax <keepdims = 0> (likely, second_axis)
  best = ArgMax <axis = 1, keepdims = 0> (likely)
  shift = Gather <axis = 1> (landms, best)
  shifts = Reshape (shift, corners_shape)
  ordered = MatMul (order, shifts)
  centre = Gather <axis = 0> (centres, best)
  side = Gather <axis = 0> (sides, best)
  apart = Mul (ordered, side)
  corners = Add (apart, centre)
  middle = ReduceMean <keepdims = 1> (corners, first_axis)
  arms = Sub (corners, middle)
  longer = Mul (arms, margin)
  wide = Add (corners, longer)
  edges = MatMul (to_edges, wide)
  turned = MatMul (edges, turn)
  upright = Transpose <perm = [1, 0]> (turned)
  crosses = MatMul (edges, upright)
  flat = Reshape (crosses, minus_one)
  three = Gather (flat, weight_places)
  area = Gather (flat, ones_of)
  quotients = Div (three, area)
  weights = Add (quotients, weight_offsets)
  columns = Reshape (weights, column_shape)
  kept = Gather <axis = 0> (wide, kept_corners)
  points = Concat <axis = 1> (kept, ones)
  plane = Mul (points, columns)
  seen = MatMul (square, plane)
  places_seen = Gather <axis = 1> (seen, first_two)
  depth = Gather <axis = 1> (seen, last)
  pixels = Div (places_seen, depth)
  scaled = Mul (pixels, scale)
  centred = Sub (scaled, float_one)
  grid = Reshape (centred, grid_shape)
  photo = Cast <to = 1> (image)
  sampled = GridSample <mode = "bilinear", padding_mode = "border"> (photo, grid)
  rounded = Round (sampled)
  bytes = Cast <to = 2> (rounded)
  strip = Reshape (bytes, strip_shape)
}
"""

#: From a strip of bytes to the reader's input, -1 to 1.
_PREPARE = """
<ir_version: 8, opset_import: ["": 18]>
prepare (uint8[1,3,TALL,WIDE] strip) => (float[1,3,TALL,WIDE] input)
{
  bytes = Cast <to = 1> (strip)
  parts = Div (bytes, half)
  input = Sub (parts, one)
}
"""

#: From scores to the likeliest class at each position.
_DECIDE = """
<ir_version: 8, opset_import: ["": 18]>
decide (float[1,POSITIONS,CLASSES] scores) => (int64[1,POSITIONS] classes)
{
  classes = ArgMax <axis = 2, keepdims = 0> (scores)
}
"""

Arrays = Mapping[str, npt.NDArray[Any]]
Part = Literal["detector", "crop", "reader"]


def cascade_graph(reader: Reader) -> Graph:
    """The detector, the crop and a reader as one network; its input is the detector's.

    Raises:
        ModelError: A package with a trained network is missing.
    """
    wide, tall = reader.strip_size
    trained = reader.model()
    name = trained.graph.input[0].name
    detector = load_graph(detector_model()).to_model()
    characters = load_graph(trained, shapes={name: (1, 3, tall, wide)}).to_model()
    (scores,) = characters.graph.output
    _, positions, classes = (extent.dim_value for extent in scores.type.tensor_type.shape.dim)
    sizes = {"TALL": tall, "WIDE": wide, "POSITIONS": positions, "CLASSES": classes}
    crop = _write(_CROP, sizes, _crop_constants(wide, tall))
    prepare = _write(
        _PREPARE, sizes, {"half": np.array(127.5, np.float32), "one": np.array(1, np.float32)}
    )
    decide = _write(_DECIDE, sizes, {})
    model = _join(detector, crop, {"conf": "conf", "landms": "landms"}, "crop/")
    _read_photo(model)
    for after, links, prefix in (
        (prepare, {"crop/strip": "strip"}, "strip/"),
        (characters, {"strip/input": name}, "reader/"),
        (decide, {f"reader/{scores.name}": "scores"}, "text/"),
    ):
        model = _join(model, after, links, prefix)
    return load_graph(model, name=f"plates-{reader.name}")


def _write(text: str, sizes: Mapping[str, int], constants: Arrays) -> ModelProto:
    """The model that a text means, its sizes put in, with constants by name."""
    for name, size in {**sizes, "HEIGHT": IMAGE_SIZE[0], "WIDTH": IMAGE_SIZE[1]}.items():
        text = text.replace(name, str(size))
    text = text.replace("COUNT", str(len(make_priors(*IMAGE_SIZE))))
    model = parser.parse_model(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()
    )
    return model


def _join(
    first: ModelProto, second: ModelProto, links: Mapping[str, str], prefix: str
) -> ModelProto:
    """Two models as one: outputs of the first by the inputs of the second that read them."""
    second.ir_version = first.ir_version
    kept = [value.name for value in first.graph.output if value.name not in links]
    kept += [prefix + value.name for value in second.graph.output]
    linked = [(one, prefix + other) for one, other in links.items()]
    second = compose.add_prefix(second, prefix)
    return compose.merge_models(first, second, linked, outputs=kept)


def _read_photo(model: ModelProto) -> None:
    """Let the crop read the photo that the detector reads; boxes are not wanted."""
    for node in model.graph.node:
        node.input[:] = [IMAGE_INPUT if n == f"crop/{IMAGE_INPUT}" else n for n in node.input]
    for values, unwanted in (
        (model.graph.input, f"crop/{IMAGE_INPUT}"),
        (model.graph.output, "loc"),
    ):
        for place, value in enumerate(values):
            if value.name == unwanted:
                del values[place]


def _crop_constants(wide: int, tall: int) -> dict[str, npt.NDArray[Any]]:
    """What the nodes of the crop read beside photo and detector."""
    height, width = IMAGE_SIZE
    priors = make_priors(height, width).astype(np.float32)
    across, down = (np.arange(wide) + 0.5) / wide, (np.arange(tall) + 0.5) / tall
    u, v = (grid.reshape(-1) for grid in np.meshgrid(across, down))
    order = np.eye(4)[list(CLOCKWISE_FROM_TOP_LEFT)] * CENTRE_VARIANCE
    floats = {
        "order": order,
        "centres": priors[:, :2],
        "sides": priors[:, 2:],
        "margin": 2 * MARGIN,
        "to_edges": [[0, 1, -1, 0], [0, 0, -1, 1], [1, -1, 1, -1]],
        "turn": [[0, -1], [1, 0]],
        "weight_offsets": [0, 1, 1],
        "ones": np.ones((3, 1)),
        "square": np.stack([1 - u - v, u, v], axis=1),
        "scale": [2 / width, 2 / height],
        "float_one": 1,
    }
    places = {
        "one": 1,
        "ones_of": [1],
        "first_axis": [0],
        "second_axis": [1],
        "corners_shape": [4, 2],
        "minus_one": [-1],
        "weight_places": [1, 7, 2],
        "column_shape": [3, 1],
        "kept_corners": [0, 1, 3],
        "first_two": [0, 1],
        "last": [2],
        "grid_shape": [1, tall * wide, 1, 2],
        "strip_shape": [1, 3, tall, wide],
    }
    return {
        **{name: np.array(value, np.float32) for name, value in floats.items()},
        **{name: np.array(value, np.int64) for name, value in places.items()},
    }


def read_answer(reader: Reader, answer: Arrays) -> tuple[PlateRead, ...]:
    """The plate that the cascade's answer means, if it is sure enough that there is one."""
    score = float(answer[SCORE][0])
    if score < DecodeOptions().least_score:
        return ()
    a, b, c, d = ((float(x), float(y)) for x, y in answer[CORNERS])
    xs, ys = zip(a, b, c, d, strict=True)
    box = (min(xs), min(ys), max(xs), max(ys))
    return (PlateRead(reader.join(answer[CLASSES][0]), Detection(box, score, (a, b, c, d))),)


def part_of(layer: str) -> Part:
    """The part of the cascade that a layer belongs to; what prepares the strip is the reader's."""
    if layer.startswith(("reader/", "text/", "strip/")) or layer == STRIP:
        return "reader"
    return "crop" if layer.startswith("crop/") else "detector"
