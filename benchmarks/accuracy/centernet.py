"""CenterNet on MobileNet-v3, trained on COCO's 80 classes: its graph, and boxes of its answers.

Source: Zhou et al. 2019 ("Objects as points"). A peak of a class's heat map is a thing's centre;
what lies at the same place of the other output are the distances to its four sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.ndimage import maximum_filter

from benchmarks.accuracy.average_precision import Boxes
from benchmarks.accuracy.edge_and_cloud import take_bytes
from benchmarks.accuracy.packages import HUMAN, fetch
from benchmarks.accuracy.photos import Pixels
from benchmarks.accuracy.tfjs import convert
from partita.graph import Graph, load_graph
from partita.graph.whole import WholeModel
from partita.quantisation.samples import Feeds
from partita.regions import Array

SIZE = 512
HEAT, SIDES = "tower_0/keypoints", "tower_0/wh"
#: Pixels from one place of the answers to the next, and boxes that are looked at in an image.
_STRIDE, _MOST_BOXES = 4, 100


def load_centernet(cache: Path, *, takes_bytes: bool = False) -> Graph:
    """The detector; its input is (1, 3, 512, 512) in RGB order, 0 to 255.

    Args:
        takes_bytes: Whether the input is of bytes, as a camera sends them, or of floats.
    """
    path = fetch(HUMAN, cache) / "package" / "models" / "centernet.json"
    model = convert(path, (1, 3, SIZE, SIZE), (HEAT, SIDES))
    return load_graph(take_bytes(model) if takes_bytes else model, name="centernet")


def feed(graph: Graph, pixels: Pixels) -> Feeds:
    """A picture of 512 x 512 x 3 as the detector's input."""
    (spec,) = graph.input_specs
    return {spec.name: np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]).astype(spec.dtype)}


def detect(graph: Graph, inputs: Sequence[Feeds]) -> list[Boxes]:
    """What is found in each picture, at most 100 boxes."""
    model = WholeModel(graph)
    answers = (model.run(one) for one in inputs)
    return [decode(answer[HEAT][0], answer[SIDES][0]) for answer in answers]


def decode(heat: Array, sides: Array) -> Boxes:
    """The surest peaks of the heat maps as boxes.

    Args:
        heat: (classes, H, W), 0 to 1.
        sides: Pixels to left, top, right and bottom, (4, H, W).
    """
    heat = np.asarray(heat, np.float64)
    peaks = np.where(maximum_filter(heat, size=(1, 3, 3)) == heat, heat, 0.0).reshape(-1)
    surest = np.argsort(-peaks, kind="stable")[:_MOST_BOXES]
    classes, rows, columns = np.unravel_index(surest, heat.shape)
    left, top, right, bottom = np.asarray(sides, np.float64)[:, rows, columns]
    x, y = columns * _STRIDE, rows * _STRIDE
    corners = np.stack([x - left, y - top, x + right, y + bottom], axis=1)
    return Boxes(corners, classes.astype(np.int64), peaks[surest])


def keep_sure(boxes: Boxes, least: float) -> Boxes:
    """The boxes of at least a score."""
    kept = boxes.scores >= least
    return Boxes(boxes.corners[kept], boxes.classes[kept], boxes.scores[kept])
