"""A small network that is really trained, and pictures for it: in a second, without a framework.

Its convolutions are drawn; its last layer is the least squares fit of classes to what they make
(an extreme learning machine).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from partita.graph import Graph, load_graph
from partita.graph.whole import WholeModel
from tests.models import make_model

CLASSES, SIDE = 8, 16
Pictures = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Trained:
    """A classifier of pictures, as a file's content and as a graph."""

    model: onnx.ModelProto
    graph: Graph


def draw_pictures(count: int, seed: int) -> tuple[Pictures, Labels]:
    """Return pictures of shape (count, 1, 3, side, side) from 0 to 1, and their classes.

    Each is the pattern of its class, moved by some pixels, in noise.
    """
    patterns = np.random.default_rng(7).random((CLASSES, 3, SIDE // 4, SIDE // 4))
    patterns = patterns.repeat(4, axis=2).repeat(4, axis=3)
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=count)
    moves = rng.integers(-2, 3, size=(count, 2))
    moved = [
        np.roll(patterns[label], tuple(move), (1, 2))
        for label, move in zip(labels, moves, strict=True)
    ]
    noisy = np.stack(moved) + rng.normal(0, 0.45, (count, 3, SIDE, SIDE))
    return np.clip(noisy, 0, 1).astype(np.float32)[:, None], labels


def _nodes() -> list[onnx.NodeProto]:
    parts = []
    for number, (source, target) in enumerate((("x", "r0"), ("r0", "r1"), ("r1", "r2"))):
        stride = 1 + (number > 0)
        parts += [
            helper.make_node(
                "Conv", [source, f"w{number}"], [f"c{number}"], name=f"conv{number}",
                pads=[1, 1, 1, 1], strides=[stride, stride],
            ),
            helper.make_node("Relu", [f"c{number}"], [target]),
        ]  # fmt: skip
    return [
        *parts,
        helper.make_node("Flatten", ["r2"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], name="dense"),
    ]


@cache
def train() -> Trained:
    """Return the network: about nine of ten pictures right."""
    rng = np.random.default_rng(0)
    shapes = ((16, 3, 3, 3), (16, 16, 3, 3), (24, 16, 3, 3))
    drawn = {
        f"w{n}": rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape).astype(np.float32)
        for n, shape in enumerate(shapes)
    }
    features = shapes[-1][0] * (SIDE // 4) ** 2
    blank = {"w": np.zeros((features, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}
    pictures, labels = draw_pictures(1500, 1)
    body = WholeModel(_load({**drawn, **blank}).graph, ["f"])
    made = np.concatenate([body.run({"x": picture})["f"] for picture in pictures])
    inputs = np.hstack([made, np.ones((len(made), 1))]).astype(np.float64)
    wanted = np.eye(CLASSES)[labels] - 1 / CLASSES
    square = inputs.T @ inputs + 30.0 * np.eye(features + 1)
    fitted = np.linalg.solve(square, inputs.T @ wanted).astype(np.float32)
    return _load({**drawn, "w": fitted[:-1], "b": fitted[-1]})


def _load(constants: dict[str, npt.NDArray[np.float32]]) -> Trained:
    model = make_model(_nodes(), {"x": [1, 3, SIDE, SIDE]}, ["y"], constants)
    return Trained(model, load_graph(model, name="trained"))
