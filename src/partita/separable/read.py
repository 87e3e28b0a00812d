"""Somebody's residual network, read from its graph as stem, blocks and head.

A block is two chains of layers from one tensor to one sum; the chain with fewer convolutions is the
shortcut. What does not have this form is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from partita.errors import ModelError
from partita.graph import Graph, Node
from partita.separable.converted import Converted
from partita.separable.read_layers import DENSE, LAYERS, LayerReader
from partita.separable.residual import Block, Shape, shape_behind

Weights = dict[str, npt.NDArray[np.float32]]
_MEANS = ("GlobalAveragePool", "ReduceMean")
_FLATTENS = ("Flatten", "Reshape", "Squeeze")


@dataclass(frozen=True)
class ReadNetwork:
    """A network as its blocks.

    Attributes:
        weights: By the names of :class:`partita.separable.module.SeparableNet`.
        names: What the file calls the sum of each block.
    """

    network: Converted
    weights: Weights
    names: Mapping[str, str]


def read_network(graph: Graph) -> ReadNetwork:
    """A network from its graph, loaded with ``optimise=False``.

    Raises:
        ModelError: It has another form; the message names the node.
    """
    (image, *others), (answer, *more) = graph.inputs, graph.outputs
    shape = graph.tensors[image].shape
    if others or more or len(shape) != 4 or shape[0] != 1:
        given = ", ".join(str(spec.shape) for spec in graph.input_specs)
        raise ModelError(
            f"Model '{graph.name}' takes {given} and gives {len(graph.outputs)} output(s): allowed"
            " are one image (1, C, H, W) and one output.",
            subject=graph.name,
        )
    return _Walk(graph).read(image, answer)


@dataclass
class _Side:
    """One of the two chains of a block."""

    nodes: list[Node] = field(default_factory=list)
    end: Node | None = None

    @property
    def convolutions(self) -> int:
        return sum(node.op == "Conv" for node in self.nodes)


class _Walk:
    """From the image to the answer."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._reader = LayerReader(graph.constants)
        self._readers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.reads:
                self._readers.setdefault(name, []).append(node)
        self._blocks: list[Block] = []
        self._names: dict[str, str] = {}

    def read(self, image: str, answer: str) -> ReadNetwork:
        x, stem = self._follow(image)
        before = self._reader.read(stem, "stem")
        shape = self._shape(image)
        reached = shape_behind(before, shape)
        while len(self._readers.get(x, ())) == 2:
            x = self._read_block(x, reached)
            reached = self._blocks[-1].shape
            x, rest = self._follow(x)
            if rest and len(self._readers.get(x, ())) == 2:
                self._refuse(rest[0], "lies between blocks, in none of them")
        if not self._blocks:
            end = self._next_or_none(x)
            if end is not None and end.op not in (*_MEANS, *_FLATTENS, *DENSE):
                self._refuse(end, "comes before the first block")
            raise ModelError(
                f"Model '{self._graph.name}' has no residual block: no tensor is read by two"
                " chains of layers that end in one sum.",
                subject=self._graph.name,
            )
        head = self._reader.read(rest, "head")
        classes = self._read_classifier(x, answer)
        network = Converted(self._graph.name, shape, classes, before, tuple(self._blocks), head)
        return ReadNetwork(network, self._reader.weights, self._names)

    def _follow(self, x: str) -> tuple[str, list[Node]]:
        """The nodes behind a tensor, as long as they are layers that one node reads; the end."""
        nodes: list[Node] = []
        while True:
            readers = self._readers.get(x, [])
            if len(readers) != 1 or readers[0].op not in LAYERS:
                return x, nodes
            nodes.append(readers[0])
            x = readers[0].outputs[0]

    def _read_block(self, x: str, shape: Shape) -> str:
        """Add the block that begins at a tensor; return the tensor it ends at."""
        sides = [self._read_side(node) for node in self._readers[x]]
        end = sides[0].end
        if end is None or sides[1].end is not end:
            self._refuse(
                self._readers[x][0],
                f"and '{_name(self._readers[x][1])}' begin a block whose chains do not end in one"
                " sum",
            )
        shortcut, branch = sorted(sides, key=lambda side: side.convolutions)
        if shortcut.convolutions == branch.convolutions:
            self._refuse(end, "adds two chains with as many convolutions: which is the shortcut?")
        is_new = not self._blocks or self._shape(end.outputs[0]) != self._blocks[-1].shape
        stage = (self._blocks[-1].stage + is_new) if self._blocks else 0
        name = f"stage{stage}.block{sum(b.stage == stage for b in self._blocks)}"
        rectifier = self._only_reader(end.outputs[0], "Relu")
        self._blocks.append(
            Block(
                name,
                stage,
                shape,
                self._reader.read(branch.nodes, name),
                self._reader.read(shortcut.nodes, f"{name}.shortcut"),
                rectifier is not None,
            )
        )
        self._names[name] = _name(end)
        return (rectifier or end).outputs[0]

    def _read_side(self, first: Node) -> _Side:
        side, node = _Side(), first
        while node.op in LAYERS:
            side.nodes.append(node)
            readers = self._readers.get(node.outputs[0], [])
            if len(readers) != 1:
                return side
            node = readers[0]
        if node.op != "Add" or any(name in self._graph.constants for name in node.inputs):
            self._refuse(node, "is in a block")
        side.end = node
        return side

    def _read_classifier(self, x: str, answer: str) -> int:
        """Read what makes the answer of the last features; return the number of classes."""
        node = self._next(x)
        if node.op in _MEANS:
            axes = self._axes(node)
            if axes not in ((2, 3), None):
                self._refuse(node, f"takes the mean over axes {axes}, allowed are height and width")
            node = self._next(node.outputs[0])
        elif self._graph.tensors[x].shape[2:] != (1, 1):
            self._refuse(node, "comes before the mean over height and width")
        while node.op in _FLATTENS:
            node = self._next(node.outputs[0])
        classes, end = self._reader.read_dense(node, self._next_or_none(node.outputs[0]))
        if end != answer:
            self._refuse(self._next(end), "comes behind the dense layer: cut the model off there")
        return classes

    def _axes(self, node: Node) -> tuple[int, ...] | None:
        """Over which axes a mean is taken; None for the operator's own."""
        if node.op == "GlobalAveragePool":
            return None
        given = node.attrs.get("axes")
        if given is None and len(node.inputs) > 1:
            given = self._graph.constants[node.inputs[1]].tolist()
        return tuple(sorted(axis % 4 for axis in given or range(4)))

    def _next(self, x: str) -> Node:
        node = self._next_or_none(x)
        if node is None:
            raise ModelError(
                f"Model '{self._graph.name}' does not end in one chain: tensor '{x}' is read by"
                f" {len(self._readers.get(x, ()))} nodes.",
                subject=x,
            )
        return node

    def _next_or_none(self, x: str) -> Node | None:
        readers = self._readers.get(x, [])
        return readers[0] if len(readers) == 1 else None

    def _only_reader(self, x: str, op: str) -> Node | None:
        node = self._next_or_none(x)
        return node if node is not None and node.op == op else None

    def _shape(self, tensor: str) -> Shape:
        _, channels, height, width = self._graph.tensors[tensor].shape
        return (channels, height, width)

    def _refuse(self, node: Node, problem: str) -> NoReturn:
        raise ModelError(
            f"Model '{self._graph.name}' has no separable form: '{_name(node)}' ({node.op})"
            f" {problem}. Allowed are {', '.join(LAYERS)} in chains, and sums of two chains.",
            subject=_name(node),
        )


def _name(node: Node) -> str:
    return node.name or node.outputs[0]
