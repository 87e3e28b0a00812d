"""Nodes of ONNX as layers of a residual network, and their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from partita.errors import ModelError
from partita.graph import Node
from partita.graph.window import read_window
from partita.separable.residual import AnyLayer, Conv, Norm, Pair, Pool, Relu

Array = npt.NDArray[np.float32]
#: Operators of the last layer.
DENSE = ("Gemm", "MatMul")
_STATISTICS = ("weight", "bias", "running_mean", "running_var")


class LayerReader:
    """Collects weights while it reads.

    Args:
        constants: Of the graph, by name.
    """

    def __init__(self, constants: Mapping[str, Array]) -> None:
        self._constants = constants
        self.weights: dict[str, Array] = {}

    def read(self, nodes: Sequence[Node], prefix: str) -> tuple[AnyLayer, ...]:
        """The layers of a chain, numbered by kind under a name.

        Raises:
            ModelError: A node has a form that no layer has.
        """
        layers: list[AnyLayer] = []
        counts: dict[str, int] = {}
        for node in nodes:
            kind, read = LAYERS[node.op]
            counts[kind] = counts.get(kind, 0) + 1
            layers.append(read(self, node, f"{prefix}.{kind}{counts[kind]}"))
        return tuple(layers)

    def read_dense(self, node: Node, behind: Node | None) -> tuple[int, str]:
        """The dense layer; return its outputs, and the tensor that it makes.

        Args:
            behind: What reads its output: may add a bias to a product.

        Raises:
            ModelError: It is none, or one with other factors than 1.
        """
        if node.op not in DENSE or node.inputs[1] not in self._constants:
            _refuse(node, "stands where the dense layer is expected")
        factors = [node.attrs.get(key, 1.0) for key in ("alpha", "beta")]
        if factors != [1.0, 1.0] or node.attrs.get("transA"):
            _refuse(node, "has factors, or reads its input transposed")
        weight = self._constants[node.inputs[1]]
        if not node.attrs.get("transB"):
            weight = weight.T
        end, bias = node.outputs[0], np.zeros(len(weight), np.float32)
        if node.op == "Gemm" and len(node.inputs) > 2 and node.inputs[2]:
            bias = self._constants[node.inputs[2]]
        elif node.op == "MatMul" and behind is not None and behind.op == "Add":
            added = [name for name in behind.inputs if name in self._constants]
            if added:
                bias, end = self._constants[added[0]], behind.outputs[0]
        self.weights["fc.weight"] = np.ascontiguousarray(weight)
        self.weights["fc.bias"] = np.broadcast_to(bias.reshape(-1), len(weight)).copy()
        return len(weight), end

    def conv(self, node: Node, name: str) -> Conv:
        """A convolution of pictures."""
        window = read_window(node)
        if window is None or len(window.kernel) != 2 or node.inputs[1] not in self._constants:
            _refuse(node, "has no fixed weight for pictures")
        if len(set(window.dilation)) > 1:
            _refuse(node, f"has dilations {window.dilation}: allowed are equal ones")
        weight = self._constants[node.inputs[1]]
        self.weights[f"{name}.weight"] = weight
        has_bias = len(node.inputs) > 2 and bool(node.inputs[2])
        if has_bias:
            self.weights[f"{name}.bias"] = self._constants[node.inputs[2]]
        return Conv(
            name=name,
            channels=len(weight),
            kernel=_pair(window.kernel),
            stride=_pair(window.stride),
            pad=_even_pad(node, window.pads_begin, window.pads_end),
            dilation=window.dilation[0],
            paths=window.groups,
            has_bias=has_bias,
        )

    def norm(self, node: Node, name: str) -> Norm:
        """Batch normalisation."""
        if any(given not in self._constants for given in node.inputs[1:]):
            _refuse(node, "has no fixed statistics")
        for leaf, given in zip(_STATISTICS, node.inputs[1:], strict=True):
            self.weights[f"{name}.{leaf}"] = self._constants[given]
        return Norm(name=name, epsilon=float(node.attrs.get("epsilon", 1e-5)))

    def relu(self, node: Node, name: str) -> Relu:
        """max(0, x)."""
        return Relu(name=name)

    def pool(self, node: Node, name: str) -> Pool:
        """Pooling of pictures."""
        window = read_window(node)
        if window is None or len(window.kernel) != 2 or set(window.dilation) != {1}:
            _refuse(node, "has no undilated window on pictures")
        pad = _even_pad(node, window.pads_begin, window.pads_end)
        is_up, is_mean = bool(node.attrs.get("ceil_mode")), node.op == "AveragePool"
        if is_mean and (is_up or (any(pad) and node.attrs.get("count_include_pad"))):
            _refuse(node, "counts what is padded, or rounds its extent up")
        if any(2 * p > k for p, k in zip(pad, window.kernel, strict=True)):
            _refuse(node, f"pads {pad}, allowed is half of its window")
        return Pool(
            name=name,
            kind="mean" if is_mean else "max",
            kernel=_pair(window.kernel),
            stride=_pair(window.stride),
            pad=pad,
            is_up=is_up,
        )


_Read = Callable[[LayerReader, Node, str], AnyLayer]
#: What may stand in a chain: the kind of layer, and what reads it.
LAYERS: dict[str, tuple[str, _Read]] = {
    "Conv": ("conv", LayerReader.conv),
    "BatchNormalization": ("bn", LayerReader.norm),
    "Relu": ("relu", LayerReader.relu),
    "MaxPool": ("pool", LayerReader.pool),
    "AveragePool": ("pool", LayerReader.pool),
}


def _pair(values: Sequence[int]) -> Pair:
    height, width = values
    return (height, width)


def _even_pad(node: Node, begin: Sequence[int], end: Sequence[int]) -> Pair:
    if tuple(begin) != tuple(end):
        _refuse(node, f"pads {tuple(begin)} before and {tuple(end)} behind: allowed are equal ones")
    return _pair(begin)


def _refuse(node: Node, problem: str) -> NoReturn:
    name = node.name or node.outputs[0]
    raise ModelError(f"No separable form: '{name}' ({node.op}) {problem}.", subject=name)
