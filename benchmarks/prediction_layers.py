"""Predicted against measured times of fragments that no profile has seen.

Profiles each model on this machine, then times random fragments (several layers, random rows) with
ONNX Runtime and compares them with what the cost model says. Usage::

    python benchmarks/prediction_layers.py [--fragments 20] [--estimator table] MODEL...

``MODEL`` is a name of the zoo or the path of an ONNX file; ``path@name=1x3x480x640`` fixes free
dimensions.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from partita.cluster import Cluster
from partita.compile import FragmentWork, work_builder, write_work
from partita.cost import CostModel
from partita.engine import OrtEngine, make_inputs
from partita.graph import Graph, load_graph
from partita.graph.fragment import BlobStore
from partita.graph.splits import row_axes
from partita.profile import MeasureOptions, Profile, load_profile, measure_profile, save_profile
from partita.regions import Region
from partita.zoo import ZOO, build_model

PASSES = 6
RUNS_PER_PASS = 7
PASS_BUDGET_S = 0.4


@dataclass
class Case:
    work: FragmentWork
    label: str
    predicted_s: float
    measured_s: float = 0.0

    @property
    def error(self) -> float:
        return self.predicted_s / self.measured_s - 1


def load(text: str) -> Graph:
    path, _, shape = text.partition("@")
    if path in ZOO:
        return load_graph(build_model(path))
    name, _, extents = shape.partition("=")
    shapes = {name: tuple(int(extent) for extent in extents.split("x"))} if name else None
    return load_graph(path, shapes=shapes)


def draw_works(graph: Graph, count: int, seed: int) -> list[tuple[FragmentWork, str]]:
    """Return random runs of layers, each for random rows of its outputs."""
    rng, builder, axes = random.Random(seed), work_builder(graph), row_axes(graph)
    layers = [layer.name for layer in graph.layers]
    works: list[tuple[FragmentWork, str]] = []
    while len(works) < count:
        start = rng.randrange(len(layers))
        stop = rng.randrange(start + 1, min(len(layers), start + 40) + 1)
        names = tuple(layers[start:stop])
        share = rng.uniform(0.1, 1.0)
        first = rng.uniform(0.0, 1.0 - share)
        boxes: dict[str, Region] = {}
        for tensor in builder.stage_outputs(names):
            boxes[tensor] = box = Region.full(graph.tensors[tensor].shape)
            axis = axes.axis(tensor)
            if axis is not None:
                full = box.shape[axis]
                begin = min(full - 1, round(full * first))
                end = max(begin + 1, round(full * (first + share)))
                boxes[tensor] = box.with_axis(axis, (begin, end))
        if boxes:
            works.append((builder.stage(names, boxes), f"{start}:{stop} {share:.2f}"))
    return works


def measure(graph: Graph, cases: list[Case]) -> None:
    """Fill in measured times: the least of the passes' medians, passes apart in time.

    One thread computes, so its processor time is what a quiet machine would take.
    """
    best = [float("inf")] * len(cases)
    builder, store = work_builder(graph), BlobStore(graph)
    runners = []
    for case in cases:
        fragment = write_work(builder, case.work, store)
        blobs = {name: store.blobs[name] for name in fragment.blobs}
        runner = OrtEngine().load(fragment.graph, blobs)
        inputs = [
            array
            if array.dtype.kind != "f"
            else np.random.default_rng(0).random(array.shape, np.float32)
            for array in make_inputs(runner.inputs)
        ]
        runner.run(inputs)
        runners.append((runner, inputs))
    for _ in range(PASSES):
        for place, (runner, inputs) in enumerate(runners):
            times: list[float] = []
            while len(times) < RUNS_PER_PASS and (len(times) < 3 or sum(times) < PASS_BUDGET_S):
                start_s = time.thread_time()
                runner.run(inputs)
                times.append(time.thread_time() - start_s)
            best[place] = min(best[place], statistics.median(times))
    for case, seconds in zip(cases, best, strict=True):
        case.measured_s = seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--fragments", type=int, default=20)
    parser.add_argument("--estimators", default="table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profiles", type=Path, help="folder to keep profiles in")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    print(f"{'model':20} {'estimator':17} {'profile':>8} {'median':>8} {'worst':>8} {'bias':>8}")
    for text in options.models:
        graph = load(text)
        started = time.perf_counter()
        profile = find_profile(graph, options.profiles)
        took_s = time.perf_counter() - started
        works = draw_works(graph, options.fragments, options.seed)
        measured: dict[int, float] = {}
        for estimator in options.estimators.split(","):
            cost = CostModel(graph, Cluster.of(["a"]), estimator=estimator, profiles=profile)
            cases = [Case(work, label, cost.work_s("a", work)) for work, label in works]
            if measured:
                for place, case in enumerate(cases):
                    case.measured_s = measured[place]
            else:
                measure(graph, cases)
                measured = {place: case.measured_s for place, case in enumerate(cases)}
            errors = [case.error for case in cases]
            sizes = [abs(error) for error in errors]
            print(
                f"{graph.name[:20]:20} {estimator:17} {took_s:7.1f}s"
                f" {statistics.median(sizes):8.1%} {max(sizes):8.1%}"
                f" {statistics.median(errors):+8.1%}"
            )
            if options.verbose:
                for case in sorted(cases, key=lambda case: case.error):
                    print(f"    {case.label:14} {case.measured_s * 1e3:9.3f} ms {case.error:+.1%}")


def find_profile(graph: Graph, folder: Path | None) -> Profile:
    path = None if folder is None else folder / f"{graph.name}.profile.json"
    if path is not None and path.exists():
        return load_profile(path)
    profile = measure_profile(graph, MeasureOptions())
    if path is not None:
        save_profile(profile, path)
    return profile


if __name__ == "__main__":
    main()
