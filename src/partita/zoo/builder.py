"""Writes ONNX graphs layer by layer, with weights drawn from a seed."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

Array = npt.NDArray[np.float32]

OPSET = 17
#: The oldest file format that may carry opset 17, so that older runtimes read the files too.
IR_VERSION = 8

#: Mean square after an operator over the one before it, for inputs near the normal distribution.
#: Convolutions divide by it, so that the variance of every convolution's outputs is near one and
#: deep networks neither explode nor fade. For ReLU this is He et al. 2015 (variance 2/fan-in).
_MOMENT = {"Clip": 0.5, "Swish": 0.4, "MaxPool": 2.0, "Mean": 1.0, "Gate": 0.33}


class Builder:
    """Collects the nodes and weights of one model.

    Every method appends nodes to one named layer and returns the name of the tensor that it makes.
    Weights depend on the seed and the layer's name alone, not on the order of calls.

    Args:
        name: Name of the graph.
        seed: Seed of all weights.
    """

    def __init__(self, name: str, *, seed: int = 0) -> None:
        self.seed = seed
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._moments: dict[str, float] = {}
        self._rectified: set[str] = set()
        self._sums: set[str] = set()
        self._model = onnx.ModelProto(
            ir_version=IR_VERSION,
            producer_name="partita",
            opset_import=[helper.make_opsetid("", OPSET)],
        )
        self._graph = self._model.graph
        self._graph.name = name

    def add_input(self, name: str, shape: tuple[int, ...]) -> str:
        """Declare a float32 input; its values are taken to have a mean square near one."""
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        self._graph.input.append(value)
        return self._remember(name, shape, 1.0)

    def conv(
        self,
        x: str,
        name: str,
        channels: int,
        *,
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> str:
        """Add a square convolution padded by ``kernel // 2``; return its (N, channels, H, W)."""
        batch, channels_in, *size = self.shapes[x]
        fan_in = channels_in // groups * kernel**2
        shape = (channels, channels_in // groups, kernel, kernel)
        weight = self._spread(f"{name}.weight", shape, 1 / math.sqrt(fan_in * self._moments[x]))
        inputs = [x, self._add_weight(f"{name}.weight", weight)]
        if bias:
            inputs.append(self._add_weight(f"{name}.bias", self._small(f"{name}.bias", channels)))
        pad = kernel // 2
        self._add_node(
            "Conv",
            inputs,
            name,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
            group=groups,
        )
        height, width = ((extent + 2 * pad - kernel) // stride + 1 for extent in size)
        return self._remember(name, (batch, channels, height, width), 1.0)

    def batch_norm(self, x: str, name: str, *, scale: float = 1.0, epsilon: float = 1e-5) -> str:
        """Add batch normalisation in its inference form, with statistics that fit its input.

        Args:
            x: Input, (N, C, H, W).
            name: Layer name.
            scale: Factor on the learned scale; below one on a residual branch keeps the sum tame.
            epsilon: Added to the variance.
        """
        channels = self.shapes[x][1]
        spread = self._uniform(f"{name}.weight", channels, 0.8, 1.2)
        variance = self._uniform(f"{name}.running_var", channels, 0.8, 1.25)
        values = {
            "weight": spread * np.float32(scale),
            "bias": self._small(f"{name}.bias", channels),
            "running_mean": self._small(f"{name}.running_mean", channels),
            "running_var": variance * np.float32(self._moments[x]),
        }
        inputs = [x, *(self._add_weight(f"{name}.{key}", value) for key, value in values.items())]
        self._add_node("BatchNormalization", inputs, name, epsilon=epsilon)
        return self._remember(name, self.shapes[x], scale**2)

    def relu(self, x: str, name: str) -> str:
        """Add max(0, x)."""
        self._add_node("Relu", [x], name)
        kept = x in self._sums  # a sum with a rectified shortcut is mostly positive already
        self._rectified.add(name)
        return self._remember(name, self.shapes[x], self._moments[x] * (1.0 if kept else 0.5))

    def relu6(self, x: str, name: str) -> str:
        """Add min(max(0, x), 6)."""
        bounds = [
            self._add_weight(f"{name}.{key}", np.asarray(value, np.float32))
            for key, value in (("min", 0.0), ("max", 6.0))
        ]
        self._add_node("Clip", [x, *bounds], name)
        return self._follow(x, name, "Clip")

    def swish(self, x: str, name: str) -> str:
        """Add x * sigmoid(x)."""
        self._add_node("Sigmoid", [x], f"{name}.sigmoid")
        self._add_node("Mul", [x, f"{name}.sigmoid"], name)
        return self._follow(x, name, "Swish")

    def gate(self, x: str, logits: str, name: str) -> str:
        """Add x * sigmoid(logits), where ``logits`` is (N, C, 1, 1)."""
        self._add_node("Sigmoid", [logits], f"{name}.sigmoid")
        self._add_node("Mul", [x, f"{name}.sigmoid"], name)
        return self._follow(x, name, "Gate")

    def add(self, x: str, y: str, name: str) -> str:
        """Add the sum of two tensors of one shape."""
        self._add_node("Add", [x, y], name)
        if x in self._rectified or y in self._rectified:
            self._sums.add(name)
        return self._remember(name, self.shapes[x], self._moments[x] + self._moments[y])

    def max_pool(self, x: str, name: str, *, kernel: int, stride: int, pad: int = 0) -> str:
        """Add square max pooling, rounding the extent down."""
        batch, channels, *size = self.shapes[x]
        height, width = ((extent + 2 * pad - kernel) // stride + 1 for extent in size)
        self._add_node(
            "MaxPool",
            [x],
            name,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
        )
        moment = self._moments[x] * _MOMENT["MaxPool"]
        return self._remember(name, (batch, channels, height, width), moment)

    def mean(self, x: str, name: str) -> str:
        """Add the mean over height and width; return its output (N, C, 1, 1)."""
        self._add_node("GlobalAveragePool", [x], name)
        moment = self._moments[x] * _MOMENT["Mean"]
        return self._remember(name, (*self.shapes[x][:2], 1, 1), moment)

    def flatten(self, x: str, name: str) -> str:
        """Add a reshape to (N, everything else)."""
        batch, *rest = self.shapes[x]
        self._add_node("Flatten", [x], name, axis=1)
        return self._remember(name, (batch, math.prod(rest)), self._moments[x])

    def dense(self, x: str, name: str, features: int) -> str:
        """Add a matrix product with bias; return its output (N, features)."""
        batch, features_in = self.shapes[x]
        deviation = 1 / math.sqrt(features_in * self._moments[x])
        weight = self._spread(f"{name}.weight", (features, features_in), deviation)
        inputs = [
            x,
            self._add_weight(f"{name}.weight", weight),
            self._add_weight(f"{name}.bias", self._small(f"{name}.bias", features)),
        ]
        self._add_node("Gemm", inputs, name, transB=1)
        return self._remember(name, (batch, features), 1.0)

    def finish(self, output: str) -> onnx.ModelProto:
        """Return the model with ``output`` as its one output."""
        value = helper.make_tensor_value_info(output, TensorProto.FLOAT, self.shapes[output])
        self._graph.output.append(value)
        return self._model

    def _add_node(self, kind: str, inputs: list[str], name: str, **attributes: Any) -> None:
        self._graph.node.append(helper.make_node(kind, inputs, [name], name=name, **attributes))

    def _remember(self, name: str, shape: tuple[int, ...], moment: float) -> str:
        self.shapes[name] = shape
        self._moments[name] = moment
        return name

    def _follow(self, x: str, name: str, kind: str) -> str:
        return self._remember(name, self.shapes[x], self._moments[x] * _MOMENT[kind])

    def _add_weight(self, name: str, value: Array) -> str:
        # In place: large weights would be copied twice more on their way through make_graph.
        weight = self._graph.initializer.add()
        weight.name = name
        weight.data_type = TensorProto.FLOAT
        weight.dims.extend(value.shape)
        weight.raw_data = value.astype("<f4", copy=False).tobytes()
        return name

    def _random(self, name: str) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64([self.seed, zlib.crc32(name.encode())]))

    def _spread(self, name: str, shape: tuple[int, ...], deviation: float) -> Array:
        # Uniform, as PyTorch initialises: a third of the time of normal numbers, and VGG has 1.4e8.
        values = self._random(name).random(shape, dtype=np.float32)
        values -= np.float32(0.5)
        values *= np.float32(deviation * math.sqrt(12))
        return values

    def _small(self, name: str, count: int) -> Array:
        return self._random(name).standard_normal(count, dtype=np.float32) * np.float32(0.1)

    def _uniform(self, name: str, count: int, low: float, high: float) -> Array:
        return self._random(name).uniform(low, high, count).astype(np.float32)
