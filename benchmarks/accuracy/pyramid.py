"""Faster R-CNN: does AUTO-SPLIT split it once its pyramid leaves out the first tap?

The paper (Appendix B) finds all in the cloud best, as the pyramid takes features from layer 10 on,
and says of one with the taps 23, 42 and 52 that "such modified model will generate SPLIT
solutions". Weights are drawn here, so that no accuracy is claimed: a plan must keep a signal to
noise of 20 dB at all outputs. Latencies are of the usual picture; ranges and noise are found with a
small one, whose layers have the same names and weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

from benchmarks.accuracy.edge_and_cloud import describe_split, edge_and_cloud, take_bytes
from benchmarks.harness import Row, at_most, say
from partita.cost import CostModel
from partita.graph import Graph, load_graph
from partita.graph.whole import WholeModel
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.quantisation import QuantisationData, collect_ranges, quantize, tabulate_errors
from partita.quantisation.samples import Feeds
from partita.zoo.builder import Builder
from partita.zoo.faster_rcnn import add_faster_rcnn

#: First level of the pyramid, by the taps that it has: the last layers of ResNet-50's groups.
TAPS = {2: "taps 10, 23, 42, 52", 3: "taps 23, 42, 52"}
#: Mbit/s, pixels, decibels.
UPLINK, SIZE, SMALL, LEAST_DB = 3, 800, 224, 20.0
_SAMPLES = 2


def compare_pyramid(cache: Path) -> Iterator[Row]:
    """The rows of both pyramids: the soonest plan of AUTO-SPLIT over all in the cloud."""
    del cache  # Nothing is fetched.
    for finest, taps in TAPS.items():
        say(f"Faster R-CNN, {taps}")
        small = load_graph(take_bytes(_build(finest, SMALL)), name="faster-rcnn-small")
        *samples, judged = (_draw(small, seed) for seed in range(_SAMPLES + 1))
        ranges = collect_ranges(small, samples)
        data = QuantisationData(tabulate_errors(small, ranges), ranges)
        judge = _Judge(small, judged)
        options = PlanOptions(quantisation=data, judge=judge, accuracy_drop=0.0)
        graph = load_graph(take_bytes(_build(finest, SIZE)), name="faster-rcnn")
        cost = CostModel(graph, edge_and_cloud(UPLINK))
        found = find_plan(cost, planner="autosplit", options=options)
        whole_s = find_plan(cost, planner="cloud_only").estimate.latency_s
        share = found.estimate.latency_s / whole_s
        words = f"Faster R-CNN, {taps}: {describe_split(graph, found.plan)}"
        yield at_most(f"{words}, latency over cloud's", "", share, 1.0)


def _build(finest: int, size: int) -> onnx.ModelProto:
    """The network with weights drawn from a seed."""
    builder = Builder(f"faster-rcnn-{finest}")
    picture = builder.add_input("input", (1, 3, size, size))
    outputs = add_faster_rcnn(builder, picture, finest=finest)
    return builder.finish(*outputs)


def _draw(graph: Graph, seed: int) -> Feeds:
    (spec,) = graph.input_specs
    return {spec.name: np.random.default_rng(seed).integers(0, 256, spec.shape, np.uint8)}


class _Judge:
    """The signal to noise of a plan's answers over what is wanted, 1 at most."""

    def __init__(self, graph: Graph, feeds: Feeds) -> None:
        self._graph, self._feeds = graph, feeds
        self._expected = self._answer(graph)

    def __call__(self, plan: Plan) -> float:
        """The least of all outputs."""
        answers = self._answer(quantize(self._graph, plan.bits))
        noises = [_decibels(wanted, answers[name]) for name, wanted in self._expected.items()]
        return min(min(noises) / LEAST_DB, 1.0)

    def _answer(self, graph: Graph) -> dict[str, np.ndarray]:
        model = WholeModel(graph)
        return {name: array.astype(np.float64) for name, array in model.run(self._feeds).items()}


def _decibels(wanted: np.ndarray, got: np.ndarray) -> float:
    noise = float(((got - wanted) ** 2).sum())
    return 10 * np.log10(float((wanted**2).sum()) / noise) if noise else np.inf
