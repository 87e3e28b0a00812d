"""Detection: boxes of CenterNet in fewer bits, after JPEG, and split, against its float boxes.

What the float network finds with some certainty is the truth here, so its own score is 1: these
are agreements with it, not scores on COCO.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.accuracy.average_precision import mean_average_precision
from benchmarks.accuracy.centernet import SIZE, detect, feed, keep_sure, load_centernet
from benchmarks.accuracy.comparison import SETTINGS, quantise
from benchmarks.accuracy.edge_and_cloud import describe_split, edge_and_cloud
from benchmarks.accuracy.photos import Pixels, draw_crops, judged_photos, sample_photos
from benchmarks.harness import Row, say, shown
from partita.compile import planned_graph
from partita.cost import CostModel
from partita.graph import Graph
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.quantisation import QuantisationData, collect_ranges, tabulate_errors

#: Least score of a float box that counts as truth.
LEAST_SCORE = 0.3
#: Crops of each of 6 photos for samples, and of each of 26 that are judged by: searching for plans
#: judges dozens, and takes minutes as it is.
EACH, SAMPLE_SEED, JUDGED_SEED = 1, 0, 1
#: Uplink of AUTO-SPLIT's Table 7 in Mbit/s, and what accuracy its plans may lose for detectors.
_UPLINK, _DROP = 3, 0.1
#: The tables' own numbers: mAP of the float network; by quality (none for PNG) the compression,
#: mAP, and latency over that of all in the cloud; by uplink mAP and latency.
_PAPER_FLOAT = 0.39
_PAPER_JPEG = {None: (2, 0.39, 0.56), 80: (5, 0.38, 0.23), 60: (8, 0.35, 0.15),
               40: (10, 0.29, 0.13), 20: (17, 0.22, 0.09)}  # fmt: skip
_PAPER_UPLINK = {1: (0.37, 0.26), 3: (0.37, 0.37), 10: (0.34, 0.83), 20: (0.25, 0.75)}


def compare_detection(cache: Path) -> Iterator[Row]:
    """The rows of the detector."""
    samples = draw_crops(sample_photos(cache), EACH, SIZE, seed=SAMPLE_SEED)
    judged = draw_crops(judged_photos(cache), EACH, SIZE, seed=JUDGED_SEED)
    yield from compare_widths(load_centernet(cache), samples, judged)
    graph = load_centernet(cache, takes_bytes=True)
    yield from compare_jpeg(graph, judged)
    yield from compare_uplinks(graph, samples, judged)


class Truth:
    """Pictures, and the boxes that a network is to find in them: the float network's sure ones."""

    def __init__(self, graph: Graph, pictures: Sequence[Pixels]) -> None:
        self._graph, self._pictures = graph, pictures
        found = detect(graph, [feed(graph, pixels) for pixels in pictures])
        self.boxes = [keep_sure(boxes, LEAST_SCORE) for boxes in found]

    def score(self, graph: Graph, pictures: Sequence[Pixels] | None = None) -> float:
        """The mean average precision of another network, or of other pictures of the same."""
        seen = self._pictures if pictures is None else pictures
        found = detect(graph, [feed(graph, pixels) for pixels in seen])
        return mean_average_precision(self.boxes, found)

    def judge(self, plan: Plan) -> float:
        """That of a plan."""
        return self.score(planned_graph(self._graph, plan))


def compare_widths(
    graph: Graph, samples: Sequence[Pixels], judged: Sequence[Pixels]
) -> Iterator[Row]:
    """The rows of the detector in fewer bits."""
    ranges = collect_ranges(graph, [feed(graph, pixels) for pixels in samples])
    truth = Truth(graph, judged)
    count = sum(len(boxes.scores) for boxes in truth.boxes)
    yield shown(f"detection: float boxes in {len(judged)} crops", "", count)
    for setting in SETTINGS:
        words = f"weights {setting[0]}, activations {setting[1]}"
        say(f"detection: {words}")
        score = truth.score(quantise(graph, ranges, setting))
        yield shown(f"detection: {words}, mAP", "", score, 1.0)


def compare_jpeg(graph: Graph, judged: Sequence[Pixels]) -> Iterator[Row]:
    """The rows of Table 7: the picture compressed before it goes to the cloud.

    Latencies are simulated, of all in the cloud, over that of the plain picture; what compressing
    takes is not in them.
    """
    truth = Truth(graph, judged)
    cost = CostModel(graph, edge_and_cloud(_UPLINK))
    whole_s = find_plan(cost, planner="cloud_only").estimate.latency_s
    plain_s = judged[0].nbytes * 8e-6 / _UPLINK
    for quality, paper in _PAPER_JPEG.items():
        words = "detection: PNG" if quality is None else f"detection: JPEG {quality}"
        say(words)
        files = [_compress(pixels, quality) for pixels in judged]
        ratio = sum(pixels.nbytes for pixels in judged) / sum(map(len, files))
        seen = [np.asarray(Image.open(io.BytesIO(file))) for file in files]
        score = truth.score(graph, seen)
        latency = 1 - plain_s / whole_s * (1 - 1 / ratio)
        yield shown(f"{words}, compressed; peer: the paper", "x", ratio, paper[0])
        yield shown(f"{words}, mAP; peer: the paper", "", score, paper[1] / _PAPER_FLOAT)
        yield shown(f"{words}, latency; peer: the paper", "", latency, paper[2])


def compare_uplinks(
    graph: Graph, samples: Sequence[Pixels], judged: Sequence[Pixels]
) -> Iterator[Row]:
    """The rows of Table 8: the plan of AUTO-SPLIT at each uplink, its latency over cloud's.

    Plans are judged on every other crop, and these rows are of the others.
    """
    ranges = collect_ranges(graph, [feed(graph, pixels) for pixels in samples])
    data = QuantisationData(tabulate_errors(graph, ranges), ranges)
    seen, held_out = (Truth(graph, judged[half::2]) for half in range(2))
    options = PlanOptions(quantisation=data, judge=seen.judge, accuracy_drop=_DROP)
    for uplink, paper in _PAPER_UPLINK.items():
        say(f"detection: {uplink} Mbit/s")
        cost = CostModel(graph, edge_and_cloud(uplink))
        found = find_plan(cost, planner="autosplit", options=options)
        cloud = find_plan(cost, planner="cloud_only")
        latency = found.estimate.latency_s / cloud.estimate.latency_s
        words = f"detection: {uplink} Mbit/s, {describe_split(graph, found.plan)}"
        score = held_out.judge(found.plan)
        yield shown(f"{words}, mAP; peer: the paper", "", score, paper[0] / _PAPER_FLOAT)
        yield shown(f"{words}, latency; peer: the paper", "", latency, paper[1])


def _compress(pixels: Pixels, quality: int | None) -> bytes:
    """A picture as JPEG, or losslessly as PNG."""
    stream, image = io.BytesIO(), Image.fromarray(pixels)
    if quality is None:
        image.save(stream, "PNG", optimize=True)
    else:
        image.save(stream, "JPEG", quality=quality)
    return stream.getvalue()
