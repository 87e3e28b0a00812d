"""Small networks as quantisers write them: pairs of nodes around every layer, weights as codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.models import make_model

Array = np.ndarray[Any, Any]


@dataclass
class QuantisedBuilder:
    """Collects nodes and constants of a network with pairs of quantising nodes.

    Attributes:
        kind: Type of the activations' codes.
        scales: Of weights, by the names of their values.
    """

    kind: str = "uint8"
    seed: int = 0
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    scales: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def node(self, op: str, inputs: list[str], **attrs: Any) -> str:
        """Add a node and return its output."""
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attrs))
        return name

    def pair(self, source: str, scale: float, zero: int) -> str:
        """Add a pair of quantising nodes after ``source``."""
        mark = len(self.nodes)
        self.constants[f"s{mark}"] = np.asarray(scale, np.float32)
        shift = 128 if self.kind == "int8" else 0
        self.constants[f"z{mark}"] = np.asarray(zero - shift, self.kind)
        codes = self.node("QuantizeLinear", [source, f"s{mark}", f"z{mark}"])
        return self.node("DequantizeLinear", [codes, f"s{mark}", f"z{mark}"])

    def weights(self, shape: tuple[int, ...], axis: int = 0) -> str:
        """Add weights as codes with a scale for each output, opened by a node."""
        mark = len(self.nodes)
        self.constants[f"w{mark}"] = self.rng.integers(-127, 128, shape).astype(np.int8)
        fan_in = np.prod(shape) / shape[axis]
        scale = self.rng.uniform(0.5, 2, shape[axis]) / 127 / np.sqrt(fan_in)
        self.constants[f"ws{mark}"] = scale.astype(np.float32)
        self.constants[f"wz{mark}"] = np.zeros(shape[axis], np.int8)
        operands = [f"w{mark}", f"ws{mark}", f"wz{mark}"]
        name = self.node("DequantizeLinear", operands, axis=axis)
        self.scales[name] = self.constants[f"ws{mark}"]
        return name

    def bias(self, weights: str, scale: float) -> str:
        """Add a bias as quantisers have it: whole numbers of 32 bits, each a step of its sums.

        Args:
            weights: That it follows.
            scale: Of what these multiply.
        """
        mark, steps = len(self.nodes), self.scales[weights] * np.float32(scale)
        self.constants[f"b{mark}"] = self.rng.integers(-(2**9), 2**9, steps.size).astype(np.int32)
        self.constants[f"bs{mark}"] = steps
        return self.node("DequantizeLinear", [f"b{mark}", f"bs{mark}"], axis=0)


def residual_network(
    kind: str = "uint8", seed: int = 0, *, stretch: float = 1.0
) -> onnx.ModelProto:
    """Return convolutions, one of them by channels, with a residual sum, and a dense layer.

    Args:
        stretch: Of the dense layer's bias: the steps of its sums have a scale of 1.
    """
    build = QuantisedBuilder(kind, seed)
    image = build.pair("x", 0.04, 128)
    stem = build.node("Conv", [image, build.weights((16, 3, 3, 3))], pads=[1] * 4)
    stem = build.pair(build.node("Relu", [stem]), 0.02, 0)
    deep = build.node("Conv", [stem, build.weights((16, 1, 3, 3))], pads=[1] * 4, group=16)
    deep = build.pair(build.node("Clip", [deep, "low", "high"]), 6 / 255, 0)
    wide = build.pair(build.node("Conv", [deep, build.weights((16, 16, 1, 1))]), 0.03, 128)
    both = build.pair(build.node("Add", [wide, stem]), 0.05, 64)
    mean = build.pair(build.node("GlobalAveragePool", [both]), 0.02, 30)
    flat = build.node("Flatten", [mean])
    build.constants |= {"low": np.float32(0), "high": np.float32(6)}
    dense = build.weights((300, 16))
    hidden = build.node("Gemm", [flat, dense, build.bias(dense, 0.02 * stretch)], transB=1)
    hidden = build.pair(build.node("Relu", [hidden]), 0.02, 0)
    last = build.node("MatMul", [hidden, build.weights((300, 10), axis=1)])
    y = build.pair(last, 0.02, 128)
    build.nodes.append(helper.make_node("Identity", [y], ["y"]))
    return make_model(build.nodes, {"x": (1, 3, 16, 16)}, ["y"], build.constants)
